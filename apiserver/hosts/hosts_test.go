package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
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
		"Data by a person":            func() error { _, err := s.Data(ctx, params.HostNames{}); return err },
		"Allocate by a person":        func() error { _, err := s.Allocate(ctx, params.AllocateHosts{}); return err },
		"Release by a person":         func() error { _, err := s.Release(ctx, params.HostNames{}); return err },
		"Consumed by a person":        func() error { _, err := s.Consumed(ctx, params.HostNames{}); return err },
		"WatchConsumed by a person":   func() error { _, err := s.WatchConsumed(ctx); return err },
		"Zones by a person":           func() error { _, err := s.Zones(ctx); return err },
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

// Whoever adds a host can tell what was wrong with it.
func TestWhatIsWrongWithAHostHasAKind(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	s := open(t, site.Management, facadetest.Superuser)
	for what, c := range map[string]struct {
		spoil func(*params.AddHost)
		kind  errors.ConstError
	}{
		"a bad name":        {func(a *params.AddHost) { a.Name = "A b" }, errors.NotValid},
		"no spec":           {func(a *params.AddHost) { a.Spec = json.RawMessage(`[]`) }, errors.NotValid},
		"half credentials":  {func(a *params.AddHost) { a.Credentials.Password = "" }, errors.NotValid},
		"an unknown scheme": {func(a *params.AddHost) { a.Spec = json.RawMessage(`{"bmc":{"address":"gopher://h"}}`) }, errors.NotSupported},
		"an unknown model":  {func(a *params.AddHost) { a.ReserveFor = "4711" }, errors.NotFound},
	} {
		a := simulated("a")
		a.Credentials = params.HostCredentials{Username: "root", Password: "calvin"}
		c.spoil(&a)
		r, err := s.Add(ctx, params.AddHosts{Hosts: []params.AddHost{a}})
		if err != nil || r.Results[0].Error == nil || !errors.Is(r.Results[0].Error, c.kind) {
			t.Errorf("%s: %+v, %v, want %v", what, r.Results, err, c.kind)
		}
	}
}

func TestManyHostsInOneCall(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	s, m := open(t, site.Management, facadetest.Superuser), manager(t, site)
	var all []params.AddHost
	var intents params.HostIntents
	var updates params.HostUpdates
	for i := range 300 {
		name := fmt.Sprint("host-", i)
		all = append(all, simulated(name))
		intents.Intents = append(intents.Intents, params.HostIntent{Name: name, For: time.Minute})
		// Of two for one host the last is what stays.
		for _, reason := range []string{"first", "of " + name} {
			updates.Updates = append(updates.Updates, params.HostUpdate{Name: name, Status: json.RawMessage(`{}`), Progress: params.HostProgress{Reason: reason}})
		}
	}
	for i, r := range add(t, s, all...) {
		if r.Error != nil || r.Name != all[i].Name {
			t.Fatalf("Add %s = %+v", all[i].Name, r)
		}
	}
	for what, call := range map[string]func() (params.ErrorResults, error){
		"Intend": func() (params.ErrorResults, error) { return m.Intend(ctx, intents) },
		"Save":   func() (params.ErrorResults, error) { return m.Save(ctx, updates) },
	} {
		r, err := call()
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range facadetest.Texts(r.Results) {
			if text != "" {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
	list, err := s.List(ctx, params.HostNames{})
	if err != nil || len(list.Results) != 300 {
		t.Fatalf("List = %d hosts, %v", len(list.Results), err)
	}
	for _, r := range list.Results {
		if r.Result.Progress.Reason != "of "+r.Result.Name {
			t.Errorf("host %s has %+v", r.Result.Name, r.Result.Progress)
		}
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
	facadetest.Equal(t, "Do", facadetest.Texts(done.Results), "", "", `action "dance" not valid [not valid]`)
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

// A machine gets a host, and gives it back.
func TestAHostForAMachine(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	a := simulated("a")
	a.Labels = map[string]string{"zone": "z1", "ssd": ""}
	add(t, open(t, site.Management, facadetest.Superuser), a)
	m := manager(t, site)
	status := json.RawMessage(`{"provisioning":{"state":"ready"},"hardware":{"ramMebibytes":2048,"cpu":{"arch":"x86_64","count":8}}}`)
	if r, err := m.Save(ctx, params.HostUpdates{Updates: []params.HostUpdate{{Name: "a", Status: status}}}); err != nil || r.Results[0].Error != nil {
		t.Fatalf("Save = %+v, %v", r, err)
	}
	st := site.Default.WithFence(state.NewFence("0"))
	worker := open(t, st, facadetest.Manager)
	machine := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	ask := params.AllocateHost{
		MachineTag: "machine-" + machine.Id(), Nonce: "n", Image: json.RawMessage(`{"url":"http://x/y"}`),
		Data: params.HostData{UserData: "hush"},
	}
	allocate := func(a params.AllocateHost) (params.ConsumedHost, string) {
		t.Helper()
		r, err := worker.Allocate(ctx, params.AllocateHosts{Machines: []params.AllocateHost{a}})
		if err != nil || len(r.Results) != 1 {
			t.Fatalf("Allocate = %+v, %v", r, err)
		}
		if e := r.Results[0].Error; e != nil {
			return params.ConsumedHost{}, facadetest.Text(e)
		}
		return *r.Results[0].Result, ""
	}
	if _, why := allocate(ask); !strings.Contains(why, "lease") {
		t.Errorf("Allocate without the model's lease: %s", why)
	}
	if _, err := st.Lease().Claim(ctx, "machine-0#w", time.Minute); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(*params.AllocateHost){
		"permission denied": func(a *params.AllocateHost) { a.MachineTag = "host-x" },
		"without a nonce":   func(a *params.AllocateHost) { a.Nonce = "" },
		"or an image":       func(a *params.AllocateHost) { a.Image = nil },
		"not found":         func(a *params.AllocateHost) { a.MachineTag = "machine-77" },
		"1 not named b":     func(a *params.AllocateHost) { a.Host = "b" },
	} {
		bad := ask
		spoil(&bad)
		if _, why := allocate(bad); !strings.Contains(why, what) {
			t.Errorf("Allocate = %q, want %q", why, what)
		}
	}
	for i := range 2 {
		got, why := allocate(ask)
		if why != "" || got.Name != "a" || got.Existed != (i > 0) || got.Zone != "z1" || len(got.Tags) != 1 || got.MachineID != machine.Id() || got.Nonce != "n" {
			t.Errorf("Allocate = %+v, %s", got, why)
		}
	}
	ask.Nonce = "another"
	if _, why := allocate(ask); !strings.Contains(why, params.CodeAlreadyExists) {
		t.Errorf("Allocate with another nonce: %s", why)
	}
	if d, err := m.Data(ctx, params.HostNames{Names: []string{"a", "b"}}); err != nil || d.Results[0].Result.UserData != "hush" || d.Results[1].Error == nil {
		t.Errorf("Data = %+v, %v", d, err)
	}
	if z, err := worker.Zones(ctx); err != nil || len(z.Zones) != 1 || z.Zones[0].Free {
		t.Errorf("Zones = %+v, %v", z, err)
	}
	if w, err := worker.WatchConsumed(ctx); err != nil || len(w.Changes) != 1 {
		t.Errorf("WatchConsumed = %+v, %v", w, err)
	}
	count := func() int {
		c, err := worker.Consumed(ctx, params.HostNames{})
		if err != nil {
			t.Fatal(err)
		}
		return len(c.Hosts)
	}
	if n := count(); n != 1 {
		t.Errorf("the model has %d hosts, want 1", n)
	}
	if r, err := worker.Release(ctx, params.HostNames{Names: []string{"a", "gone"}}); err != nil || r.Results[0].Error != nil || r.Results[1].Error != nil {
		t.Errorf("Release = %+v, %v", r, err)
	}
	if n := count(); n != 0 {
		t.Errorf("the model has %d hosts after their release", n)
	}
}
