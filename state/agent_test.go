package state_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestWhatAgentsReport(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	for range 2 { // the second time nothing is written
		must(t, m.SetHostname(ctx, "rack-7"))
		must(t, m.SetAgentVersion(ctx, "3.5.0-jammy-amd64"))
		must(t, m.SetMachineAddresses(ctx, network.NewAddresses("10.0.0.1")))
	}
	if n := tap.Counts()["Apply"]; n != 5 { // the site, the machine, three reports
		t.Errorf("%d batches, want 5", n)
	}
	must(t, m.SetAgentStarted(ctx, time.Now()))
	must(t, m.Refresh(ctx))
	if m.Hostname() != "rack-7" || m.AgentVersion() != "3.5.0-jammy-amd64" {
		t.Errorf("host %q, version %q", m.Hostname(), m.AgentVersion())
	}
	must(t, m.EnsureDead(ctx))
	for name, set := range map[string]func() error{
		"host name": func() error { return m.SetHostname(ctx, "x") },
		"version":   func() error { return m.SetAgentVersion(ctx, "x") },
		"start":     func() error { return m.SetAgentStarted(ctx, time.Now()) },
		"addresses": func() error { return m.SetProviderAddresses(ctx, network.NewAddresses("10.0.0.2")) },
	} {
		if err := set(); !errors.Is(err, kind.Dead) {
			t.Errorf("setting the %s of a dead machine: %v", name, err)
		}
	}
	must(t, m.Remove(ctx))
	if err := m.SetHostname(ctx, "x"); !errors.Is(err, kind.Dead) {
		t.Errorf("setting the host name of a machine that is gone: %v", err)
	}
	if err := m.Refresh(ctx); !errors.Is(err, errors.NotFound) {
		t.Errorf("Refresh of a machine that is gone: %v", err)
	}
}

func TestAPIHostPorts(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	if servers, err := site.APIHostPorts(ctx); err != nil || len(servers) != 0 {
		t.Errorf("at first: %v, %v", servers, err)
	}
	w := site.WatchAPIHostPorts()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	hp := func(value string) []network.HostPort {
		return []network.HostPort{{Address: network.NewAddress(value), Port: 17070}}
	}
	for _, servers := range [][][]network.HostPort{{hp("10.0.0.1")}, {hp("10.0.0.1"), hp("10.0.0.2")}, {hp("10.0.0.1"), hp("10.0.0.3")}, {hp("10.0.0.1"), {}}} {
		must(t, site.SetAPIHostPorts(ctx, servers))
		wantNotice(t, w)
		must(t, site.SetAPIHostPorts(ctx, servers))
		wantNothing(t, site, w.Changes())
		got, err := site.APIHostPorts(ctx)
		must(t, err)
		if len(got) != len(servers) || len(got[len(got)-1]) != len(servers[len(servers)-1]) {
			t.Errorf("got %v, want %v", got, servers)
		}
	}
}

// TestWatchersSurviveAFailedRead lets the hub's read of a changed machine fail.
func TestWatchersSurviveAFailedRead(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	var fail atomic.Bool
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if c.Method == "GetAll" && len(c.Keys) == 1 && c.Keys[0].Collection == "machines" && fail.CompareAndSwap(true, false) {
			return errors.New("network unreachable")
		}
		return nil
	})
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	w := watchMachines(t, site.Default)
	wantNext(t, w, "0")
	fail.Store(true)
	must(t, m.Destroy(ctx))
	wantNext(t, w, "0")
	must(t, m.EnsureDead(ctx))
	wantNext(t, w, "0")
}

func TestWatchThatCannotStartLeavesNothing(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := site.Default.Machines().Watch(late); !errors.Is(err, context.Canceled) {
		t.Errorf("watching machines: %v", err)
	}
	if _, err := m.Watch(late); !errors.Is(err, context.Canceled) {
		t.Errorf("watching a machine: %v", err)
	}
	must(t, m.Destroy(ctx)) // and nobody is told
	flush(t, site)
}

func TestWatchMachineThatIsGone(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	must(t, m.EnsureDead(ctx))
	must(t, m.Remove(ctx))
	flush(t, site)
	w, err := m.Watch(ctx)
	must(t, err)
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	wantNothing(t, site, w.Changes())
	containers := watchContainers(t, m, "")
	wantNext(t, containers)
	wantNothing(t, site, containers.Changes())
}

// TestDamagedDocuments shows that what cannot be decoded is named, and neither
// panics nor ends the watchers.
func TestDamagedDocuments(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	st := site.Default
	statetest.AddMachine(t, st, state.MachineSpec{})
	whole := statetest.AddMachine(t, st, state.MachineSpec{})
	w := watchMachines(t, st)
	wantNext(t, w, "0", "1")
	key := store.Key{Collection: "machines", ID: st.ModelUUID() + ":0"}
	d, err := tap.Get(ctx, key)
	must(t, err)
	must(t, tap.Apply(ctx, []store.Op{store.Replace(key, d.Rev, []byte(`{"life":`), nil)}))
	must(t, whole.Destroy(ctx))
	wantNext(t, w, "1")
	if _, err := st.Machines().Get(ctx, "0"); err == nil {
		t.Error("a damaged machine is read without an error")
	}
	users := store.Key{Collection: "users", ID: "_:admin"}
	d, err = tap.Get(ctx, users)
	must(t, err)
	for _, hash := range []string{"x", "$argon2id$v=19$m=1,t=0,p=1$AAAA$AAAA", "$argon2id$v=18$m=1,t=1,p=1$AAAA$AAAA",
		"$argon2id$v=19$m=8,t=1,p=1$!$AAAA", "$argon2id$v=19$m=8,t=1,p=1$AAAA$", "$argon2id$v=19$m=8,t=1,p=2$AAAA$AAAA"} {
		must(t, tap.Apply(ctx, []store.Op{store.Replace(users, d.Rev, []byte(`{"name":"admin","password-hash":"`+hash+`"}`), nil)}))
		if u, err := site.Users().Authenticate(ctx, "admin", "x"); err == nil || u != nil {
			t.Errorf("logged in with the damaged hash %q", hash)
		}
		d, err = tap.Get(ctx, users)
		must(t, err)
	}
}

func TestReadsReturnWhatTheStoreHasNow(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	other, err := state.Open(ctx, tap, state.Options{}) // as in another process
	must(t, err)
	defer other.Close()
	st, err := other.State(ctx, site.Default.ModelUUID())
	must(t, err)
	for i, s := range []status.Status{status.Started, status.Stopped, status.Started} {
		must(t, get(t, site.Default, "0").SetStatus(ctx, status.Info{Status: s}))
		if got := get(t, st, "0").Status().Status; got != s {
			t.Errorf("read %d: %s, want %s", i, got, s)
		}
		must(t, get(t, st, "0").SetInstanceStatus(ctx, status.Info{Status: s}))
		if got := get(t, site.Default, "0").InstanceStatus().Status; got != s {
			t.Errorf("read back %d: %s, want %s", i, got, s)
		}
	}
}
