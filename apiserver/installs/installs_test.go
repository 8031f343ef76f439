package installs_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/installs"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/install"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

// world is a site with one host, its manager and a superuser.
type world struct {
	t       *testing.T
	site    *statetest.Site
	manager *installs.Installs
	person  *installs.Installs
	uid     string
}

func open(t *testing.T, st *state.State, who facadetest.Caller) *installs.Installs {
	t.Helper()
	i, err := installs.New(st, facadetest.Connect(t, who))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func newWorld(t *testing.T) *world {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	w := &world{t: t, site: site, person: open(t, site.Management, facadetest.Superuser)}
	st := site.Management.WithFence(state.NewFence("0"))
	if _, err := st.SiteLease().Claim(ctx, "machine-0#s", time.Minute); err != nil {
		t.Fatal(err)
	}
	w.manager = open(t, st, facadetest.Manager)
	s := host.Spec{Name: "a", Credentials: bmc.Credentials{Username: "u", Password: "p"}}
	s.Spec.BMC.Address = "simulated://a"
	hosts := host.New(site.SiteDocs())
	if _, err := hosts.Add(ctx, s); err != nil {
		t.Fatal(err)
	}
	h, err := hosts.Get(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	w.uid = h.Record.Metadata.UID
	return w
}

func (w *world) order() params.InstallOrder {
	return params.InstallOrder{
		Purpose: "install", Host: w.uid, Name: "a", Image: json.RawMessage(`{"url":"https://images.test/i","checksum":"` + strings.Repeat("ab", 32) + `"}`),
		RootHints: json.RawMessage(`{"serialNumber":"S1"}`), UserData: "planted",
	}
}

func (w *world) start() params.InstallStatus {
	w.t.Helper()
	r, err := w.manager.Start(ctx, params.InstallOrders{Orders: []params.InstallOrder{w.order()}})
	if err != nil || r.Results[0].Error != nil {
		w.t.Fatalf("Start = %+v, %v", r, err)
	}
	return *r.Results[0].Result
}

// boots starts the installer of an order: it reads its medium and proves itself.
func (w *world) boots(s params.InstallStatus) *install.Session {
	w.t.Helper()
	is := install.New(w.site.SiteDocs())
	parts := strings.Split(string(s.ISO), "/")
	b, err := is.Medium(ctx, w.uid, config.Secret(parts[len(parts)-2]))
	if err != nil {
		w.t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	e := config.Exchange{Host: b.Host, Boot: b.Number, Token: b.Token, PublicKey: public}
	e.Signature = ed25519.Sign(private, e.Message())
	c, err := is.Exchange(ctx, e)
	if err != nil {
		w.t.Fatal(err)
	}
	session, err := is.Authenticate(ctx, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return session
}

func (w *world) status() params.InstallStatus {
	w.t.Helper()
	r, err := w.manager.Status(ctx, params.HostUIDs{Hosts: []string{w.uid, "other"}})
	if err != nil || len(r.Statuses) != 1 {
		w.t.Fatalf("Status = %+v, %v", r, err)
	}
	return r.Statuses[0]
}

func TestWhoMayDoWhat(t *testing.T) {
	w := newWorld(t)
	for _, who := range []facadetest.Caller{facadetest.Writer, facadetest.Agent("machine-1"), {}} {
		if _, err := installs.New(w.site.Management, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	m, s := w.manager, w.person
	for what, call := range map[string]func() error{
		"Show by a manager":  func() error { _, err := m.Show(ctx, params.HostNames{}); return err },
		"Log by a manager":   func() error { _, err := m.Log(ctx, params.InstallLogQuery{Name: "a"}); return err },
		"Watch by a person":  func() error { _, err := s.Watch(ctx); return err },
		"Status by a person": func() error { _, err := s.Status(ctx, params.HostUIDs{}); return err },
		"Start by a person":  func() error { _, err := s.Start(ctx, params.InstallOrders{}); return err },
		"Mark by a person":   func() error { _, err := s.Mark(ctx, params.InstallMarks{}); return err },
		"Renew by a person":  func() error { _, err := s.Renew(ctx, params.InstallRenewals{}); return err },
		"Cancel by a person": func() error { _, err := s.Cancel(ctx, params.HostUIDs{}); return err },
	} {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", what, err)
		}
	}
	without := open(t, w.site.Management.WithFence(state.NewFence("1")), facadetest.Manager)
	if _, err := without.Status(ctx, params.HostUIDs{Hosts: []string{w.uid}}); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Status without the lease = %v", err)
	}
	r, err := without.Start(ctx, params.InstallOrders{Orders: []params.InstallOrder{w.order()}})
	if err != nil || r.Results[0].Error == nil || r.Results[0].Error.Code != params.CodeLeaseClaimDenied {
		t.Errorf("Start without the lease = %+v, %v", r, err)
	}
}

func TestAnOrderFromStartToEnd(t *testing.T) {
	w := newWorld(t)
	if got, err := w.manager.Watch(ctx); err != nil || len(got.Changes) != 0 || got.StringsWatcherID == "" {
		t.Errorf("Watch = %+v, %v", got, err)
	}
	empty, err := w.person.Show(ctx, params.HostNames{Names: []string{"a", "nowhere"}})
	if err != nil || empty.Results[0].Result == nil || empty.Results[0].Result.Phase != "" || facadetest.Text(empty.Results[1].Error) != `host "nowhere" not found [not found]` {
		t.Errorf("Show of a host that was never installed = %+v, %v", empty, err)
	}
	first := w.start()
	if !strings.HasPrefix(string(first.ISO), "https://media.test/installer/media/"+w.uid+"/") || first.Phase != "waiting" || first.Number != 1 || first.Now.IsZero() {
		t.Errorf("Start = %+v", first)
	}
	marks := []params.InstallMark{{Host: w.uid, Mark: "prepared"}, {Host: w.uid, Mark: "booted"}, {Host: w.uid, Mark: "x"}}
	marked, err := w.manager.Mark(ctx, params.InstallMarks{Marks: marks})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "Mark", facadetest.Texts(marked.Results), "", "", `mark "x" not valid [not valid]`)
	w.boots(first)
	renewed, err := w.manager.Renew(ctx, params.InstallRenewals{Renewals: []params.InstallRenewal{{Host: w.uid, Number: 1, Reason: "silent"}, {Host: "other", Number: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "Renew", facadetest.Texts(renewed.Results), "", `order for host "other" not found [not found]`)
	second := w.status()
	if second.Number != 2 || second.Tries != 2 || second.ISO == first.ISO || !second.Booted.IsZero() {
		t.Errorf("after Renew: %+v", second)
	}
	session := w.boots(second)
	if err := session.Keep(ctx, install.KindInventory, json.RawMessage(`{"cpus":2,"memory-mib":1024,"arch":"amd64"}`)); err != nil {
		t.Fatal(err)
	}
	if s := w.status(); s.Phase != "running" || len(s.Details) > 0 {
		t.Errorf("running: %+v", s)
	}
	if err := session.Report(ctx, config.Status{State: config.StateSuccess, Facts: json.RawMessage(`{"disk":{"serial":"S1"}}`)}); err != nil {
		t.Fatal(err)
	}
	if s := w.status(); s.Phase != "done" || !strings.Contains(string(s.Details), `"ramMebibytes":1024`) {
		t.Errorf("done: %+v", s)
	}
	shown, err := w.person.Show(ctx, params.HostNames{Names: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shown)
	if err != nil || strings.Contains(string(text), "planted") || strings.Contains(string(text), "/media/") ||
		!strings.Contains(string(text), `"message":"silent"`) || !strings.Contains(string(text), `"disk":{"serial":"S1"}`) {
		t.Errorf("Show = %s, %v", text, err)
	}
	if printed := fmt.Sprintf("%+v", w.order()); strings.Contains(printed, "planted") {
		t.Errorf("an order prints its data: %s", printed)
	}
	if r, err := w.manager.Cancel(ctx, params.HostUIDs{Hosts: []string{w.uid}}); err != nil || r.Results[0].Error != nil {
		t.Errorf("Cancel = %+v, %v", r, err)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	w := newWorld(t)
	bad, unread := w.order(), w.order()
	bad.Image, unread.Network = json.RawMessage(`{"url":"https://images.test/i"}`), json.RawMessage(`[]`)
	r, err := w.manager.Start(ctx, params.InstallOrders{Orders: []params.InstallOrder{bad, unread}})
	if err != nil || r.Results[0].Error.Code != params.CodeBadRequest || !strings.Contains(r.Results[0].Error.Message, "neither checksum nor signature") ||
		r.Results[1].Error.Code != params.CodeBadRequest || !strings.Contains(r.Results[1].Error.Message, "the installer's network cannot be read") {
		t.Errorf("Start = %+v, %v", r, err)
	}
	c := facadetest.Connect(t, facadetest.Manager)
	c.MediaURL = func(context.Context) (string, error) { return "", errors.NewNotSupported(nil, "no installer here") }
	i, err := installs.New(w.site.Management, c)
	if err != nil {
		t.Fatal(err)
	}
	r, err = i.Start(ctx, params.InstallOrders{Orders: []params.InstallOrder{w.order()}})
	if err != nil || r.Results[0].Error.Code != params.CodeNotSupported || r.Results[0].Error.Message != "no installer here" {
		t.Errorf("Start without an installer = %+v, %v", r, err)
	}
}

func TestLogIsFollowed(t *testing.T) {
	w := newWorld(t)
	ask := func(q params.InstallLogQuery) params.InstallLog {
		t.Helper()
		q.Name = "a"
		l, err := w.person.Log(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := ask(params.InstallLogQuery{}); l.Boot != 0 || l.Ended {
		t.Errorf("log of a host that was never installed = %+v", l)
	}
	follow := func(q params.InstallLogQuery) <-chan params.InstallLog {
		q.Name, q.Wait = "a", true
		out := make(chan params.InstallLog, 1)
		go func() {
			l, err := w.person.Log(ctx, q)
			if err != nil {
				t.Error(err)
			}
			out <- l
		}()
		return out
	}
	next := follow(params.InstallLogQuery{})
	first := w.start()
	session := w.boots(first)
	if err := session.AddLog(ctx, []string{"zero"}); err != nil {
		t.Fatal(err)
	}
	if l := <-next; l.Boot != 1 {
		t.Errorf("the first boot = %+v", l)
	}
	next = follow(params.InstallLogQuery{Boot: 1, After: 1})
	if err := session.AddLog(ctx, []string{"one", "two"}); err != nil {
		t.Fatal(err)
	}
	l := <-next
	if l.Boot != 1 || len(l.Lines) != 2 || l.Next != 3 || l.Ended {
		t.Errorf("first lines = %+v", l)
	}
	next = follow(params.InstallLogQuery{After: l.Next})
	if err := session.Report(ctx, config.Status{State: config.StateError, Step: "stream-image", Message: "no"}); err != nil {
		t.Fatal(err)
	}
	if l := <-next; len(l.Lines) != 0 || !l.Ended || l.Message != "step stream-image: no" {
		t.Errorf("end = %+v", l)
	}
	w.start()
	if l := ask(params.InstallLogQuery{Boot: 1, After: 2}); len(l.Lines) != 1 || l.Lines[0] != "two" || !l.Ended || l.Newest != 2 {
		t.Errorf("log of an old boot = %+v", l)
	}
	if _, err := w.person.Log(ctx, params.InstallLogQuery{Name: "a", Boot: 7}); !errors.Is(err, errors.NotFound) {
		t.Errorf("log of a boot that never was = %v", err)
	}
	if _, err := w.person.Log(ctx, params.InstallLogQuery{Name: "a", After: -1}); !errors.Is(err, errors.NotValid) {
		t.Errorf("log after line -1 = %v", err)
	}
	if _, err := w.person.Log(ctx, params.InstallLogQuery{Name: "b"}); common.ServerError(err).Code != params.CodeNotFound {
		t.Errorf("log of another host = %v", err)
	}
}
