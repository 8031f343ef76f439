package hosts_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/hosts"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func open(t *testing.T, st *state.State, who facadetest.Caller) *hosts.Hosts {
	t.Helper()
	h, err := hosts.New(st, facadetest.Connect(t, who))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// manager returns the facade of a manager that holds the site's lease.
func manager(t *testing.T, site *statetest.Site) *hosts.Hosts {
	t.Helper()
	st := site.Management.WithFence(state.NewFence("0"))
	if _, err := st.SiteLease().Claim(ctx, "machine-0#s", time.Minute); err != nil {
		t.Fatal(err)
	}
	return open(t, st, facadetest.Manager)
}

func add(t *testing.T, h *hosts.Hosts, hs ...params.AddHost) []params.AddHostResult {
	t.Helper()
	r, err := h.Add(ctx, params.AddHosts{Hosts: hs})
	if err != nil {
		t.Fatal(err)
	}
	return r.Results
}

func simulated(name string) params.AddHost {
	return params.AddHost{Name: name, Spec: json.RawMessage(`{"bmc":{"address":"simulated://` + name + `"},"online":true}`),
		Credentials: params.HostCredentials{Username: "root", Password: "calvin"}}
}

func TestWhoMayDoWhat(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Writer, facadetest.Agent("machine-1"), {}} {
		if _, err := hosts.New(site.Management, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	m, s := open(t, site.Management.WithFence(state.NewFence("0")), facadetest.Manager), open(t, site.Management, facadetest.Superuser)
	denied := map[string]func() error{
		"List by a manager":           func() error { _, err := m.List(ctx, params.HostNames{}); return err },
		"Add by a manager":            func() error { _, err := m.Add(ctx, params.AddHosts{}); return err },
		"Do by a manager":             func() error { _, err := m.Do(ctx, params.HostActions{}); return err },
		"SetCredentials by a manager": func() error { _, err := m.SetCredentials(ctx, params.SetHostsCredentials{}); return err },
		"Watch by a person":           func() error { _, err := s.Watch(ctx); return err },
		"Managed by a person":         func() error { _, err := s.Managed(ctx, params.HostNames{}); return err },
		"Intend by a person":          func() error { _, err := s.Intend(ctx, params.HostIntents{}); return err },
		"Save by a person":            func() error { _, err := s.Save(ctx, params.HostUpdates{}); return err },
		"Forget by a person":          func() error { _, err := s.Forget(ctx, params.HostNames{}); return err },
	}
	for what, call := range denied {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", what, err)
		}
	}
	if _, err := m.Managed(ctx, params.HostNames{}); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Managed without the lease = %v, want it denied", err)
	}
}

func TestAHostFromItsAdditionToItsEnd(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	s, m := open(t, site.Management, facadetest.Superuser), manager(t, site)
	bad := simulated("bad")
	bad.Spec = json.RawMessage(`[]`)
	nowhere := simulated("nowhere")
	nowhere.ReserveFor = "00000000-0000-4000-8000-000000000000"
	added := add(t, s, simulated("a"), simulated("a"), bad, nowhere)
	if added[0].Name != "a" || added[0].Error != nil || added[1].Error.Code != params.CodeAlreadyExists ||
		!strings.HasPrefix(added[2].Error.Message, "spec of the host is no spec") || added[3].Error == nil {
		t.Fatalf("Add = %+v", added)
	}
	got, err := m.Managed(ctx, params.HostNames{Names: []string{"a", "gone"}})
	if err != nil || len(got.Hosts) != 1 || got.Hosts[0].Credentials.Password != "calvin" {
		t.Fatalf("Managed = %+v, %v", got, err)
	}
	saved, err := m.Save(ctx, params.HostUpdates{Updates: []params.HostUpdate{
		{Name: "a", Status: json.RawMessage(`{"poweredOn":true}`), Progress: params.HostProgress{Reason: "the weather"}, Events: []params.HostEvent{{Reason: "R"}}},
		{Name: "a", Status: json.RawMessage(`"x"`)},
		{Name: "gone", Status: json.RawMessage(`{}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if texts := facadetest.Texts(saved.Results); texts[0] != "" || !strings.HasPrefix(texts[1], "status is no status") || texts[2] != `host "gone" not found [not found]` {
		t.Errorf("Save = %q", texts)
	}
	list, err := s.List(ctx, params.HostNames{})
	if err != nil || len(list.Results) != 1 {
		t.Fatalf("List = %+v, %v", list, err)
	}
	shown, err := json.Marshal(list)
	if err != nil || strings.Contains(string(shown), "calvin") || strings.Contains(string(shown), "root") ||
		!strings.Contains(string(shown), `"poweredOn":true`) || !strings.Contains(string(shown), "the weather") {
		t.Errorf("List = %s, %v", shown, err)
	}
	for what, do := range map[string]func() (params.ErrorResults, error){
		"intend": func() (params.ErrorResults, error) {
			return m.Intend(ctx, params.HostIntents{Intents: []params.HostIntent{{Name: "a", For: time.Minute}}})
		},
		"set credentials": func() (params.ErrorResults, error) {
			return s.SetCredentials(ctx, params.SetHostsCredentials{Hosts: []params.SetHostCredentials{{Name: "a", Credentials: params.HostCredentials{Username: "u", Password: "p"}}}})
		},
	} {
		if r, err := do(); err != nil || facadetest.Text(r.Results[0].Error) != "" {
			t.Errorf("%s = %+v, %v", what, r, err)
		}
	}
	done, err := s.Do(ctx, params.HostActions{Actions: []params.HostAction{{Name: "a", Action: "retry"}, {Name: "a", Action: "remove"}, {Name: "a", Action: "dance"}}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "Do", facadetest.Texts(done.Results), "", "", `action "dance" not valid`)
	if r, err := m.Forget(ctx, params.HostNames{Names: []string{"a"}}); err != nil || r.Results[0].Error != nil {
		t.Errorf("Forget = %+v, %v", r, err)
	}
	one, err := s.List(ctx, params.HostNames{Names: []string{"a"}})
	if err != nil || facadetest.Text(one.Results[0].Error) != `host "a" not found [not found]` {
		t.Errorf("List of a host that is gone = %+v, %v", one, err)
	}
}

func TestWatch(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	add(t, open(t, site.Management, facadetest.Superuser), simulated("a"))
	got, err := manager(t, site).Watch(ctx)
	if err != nil || len(got.Changes) != 1 || got.Changes[0] != "a" || got.StringsWatcherID == "" {
		t.Errorf("Watch = %+v, %v", got, err)
	}
}
