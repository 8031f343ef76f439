package state_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

const leaseTime = 6 * time.Second

// claim claims a lease for leaseTime.
func claim(t *testing.T, l *state.Lease, holder string) int64 {
	t.Helper()
	epoch, err := l.Claim(ctx, holder, leaseTime)
	must(t, err)
	return epoch
}

func wantDenied(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("%s = %v, want the lease denied", what, err)
	}
}

func TestLeasePassesToWhoeverWaitsWhenItsOwnerGoesSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, _ := statetest.OpenMemory(t)
		fence := state.NewFence("")
		owner := site.Default.WithFence(fence)
		heir := site.Default.Lease()
		must(t, heir.Wait(ctx)) // nobody has it
		if got := claim(t, owner.Lease(), "a"); got != 1 {
			t.Errorf("first epoch = %d, want 1", got)
		}
		start := time.Now()
		free := make(chan error, 1)
		go func() { free <- heir.Wait(ctx) }()
		for range 10 {
			time.Sleep(2 * time.Second)
			if got := claim(t, owner.Lease(), "a"); got != 1 {
				t.Errorf("epoch after a renewal = %d, want 1", got)
			}
			_, err := heir.Claim(ctx, "b", leaseTime)
			wantDenied(t, "claim beside an owner", err)
		}
		must(t, <-free)
		if got := time.Since(start); got != 20*time.Second+leaseTime {
			t.Errorf("lease was free after %v, want it 6 s after the last renewal", got)
		}
		m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
		mine, err := owner.Machines().Get(ctx, m.Id())
		must(t, err)
		started := status.Info{Status: status.Started}
		must(t, mine.SetStatus(ctx, started)) // it ran out, but nobody took over
		if got := claim(t, heir, "b"); got != 2 {
			t.Errorf("second epoch = %d, want 2", got)
		}
		wantDenied(t, "write of the owner before", mine.SetStatus(ctx, started))
		_, err = owner.Lease().Claim(ctx, "a", leaseTime)
		wantDenied(t, "renewal of the owner before", err)
		info, err := heir.Info(ctx)
		must(t, err)
		if info.Holder != "b" || info.Epoch != 2 {
			t.Errorf("info: %+v", info)
		}
	})
}

// TestLeaseIsJudgedByTheObserversOwnClock has a second controller come long after the
// last renewal: it has seen nothing of the owner's silence, so it waits for
// as long as if the owner had just spoken, whatever its clock on the wall says.
func TestLeaseIsJudgedByTheObserversOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, tap := statetest.OpenMemory(t)
		claim(t, site.Default.Lease(), "a")
		time.Sleep(time.Hour)
		jumps := []time.Duration{0, 48 * time.Hour, -48 * time.Hour}
		var calls atomic.Int64
		other, err := state.Open(ctx, tap, state.Options{Now: func() time.Time {
			return time.Now().Add(jumps[calls.Add(1)%3])
		}})
		must(t, err)
		defer other.Close()
		st, err := other.State(ctx, site.Default.ModelUUID())
		must(t, err)
		start := time.Now()
		_, err = st.Lease().Claim(ctx, "b", leaseTime)
		wantDenied(t, "claim of a controller that has seen nothing", err)
		must(t, st.Lease().Wait(ctx))
		if got := time.Since(start); got != leaseTime {
			t.Errorf("waited %v, want %v", got, leaseTime)
		}
		if got := claim(t, st.Lease(), "b"); got != 2 {
			t.Errorf("epoch = %d, want 2", got)
		}
	})
}

func TestFenceIsClosedUntilTheLeaseIsClaimed(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	host := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	statetest.AddMachine(t, site.Default, state.MachineSpec{Parent: host.Id(), ContainerType: container.LXD})
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	fenced := site.Default.WithFence(state.NewFence("0"))
	get := func(id string) *state.Machine {
		m, err := fenced.Machines().Get(ctx, id)
		must(t, err)
		return m
	}
	started := status.Info{Status: status.Started}
	for _, own := range []string{"0", "0/lxd/0"} {
		must(t, get(own).SetStatus(ctx, started))
	}
	writes := map[string]func(m *state.Machine) error{
		"SetStatus":         func(m *state.Machine) error { return m.SetStatus(ctx, started) },
		"SetInstanceStatus": func(m *state.Machine) error { return m.SetInstanceStatus(ctx, started) },
		"SetInstanceInfo": func(m *state.Machine) error {
			return m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"})
		},
		"SetPassword": func(m *state.Machine) error { return m.SetPassword(ctx, statetest.MachinePassword) },
		"SetSupportedContainers": func(m *state.Machine) error {
			return m.SetSupportedContainers(ctx, []container.Type{container.LXD})
		},
		"EnsureDead":      func(m *state.Machine) error { return m.EnsureDead(ctx) },
		"MarkForRemoval":  func(m *state.Machine) error { return m.MarkForRemoval(ctx) },
		"Remove":          func(m *state.Machine) error { return m.Remove(ctx) },
		"Destroy":         func(m *state.Machine) error { return m.Destroy(ctx) },
		"ForceDestroy":    func(m *state.Machine) error { return m.ForceDestroy(ctx) },
		"SetAgentVersion": func(m *state.Machine) error { return m.SetAgentVersion(ctx, "2.0.0-jammy-amd64") },
	}
	m := get("1")
	for name, write := range writes {
		wantDenied(t, name, write(m))
	}
	wantDenied(t, "a setting", fenced.ModelConfig().SetAgentVersion(ctx, "2.0.1"))
	claim(t, fenced.Lease(), "a")
	for _, name := range []string{"SetStatus", "SetInstanceInfo", "EnsureDead", "Remove"} {
		got := callsOf(t, site, tap.Counts, func() { must(t, writes[name](m)) })
		want := map[string]int{"GetAll": 1, "Apply": 1}
		if name == "SetInstanceInfo" || name == "EnsureDead" {
			want = map[string]int{"Get": 1, "Apply": 1}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s behind an open fence: %v, want no more than %v", name, got, want)
		}
	}
}

// TestFenceRefusesInTheBatchItself takes the lease over between the reading and the
// writing of a change.
func TestFenceRefusesInTheBatchItself(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	var taking atomic.Pointer[func()]
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if f := taking.Load(); f != nil && c.Method == "Apply" && c.Ops[0].Kind == store.OpReplace {
			taking.Store(nil)
			(*f)()
		}
		return nil
	})
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	fenced := site.Default.WithFence(state.NewFence(""))
	claim(t, fenced.Lease(), "a")
	mine, err := fenced.Machines().Get(ctx, m.Id())
	must(t, err)
	takeOver := func() { claim(t, site.Default.Lease(), "a") } // the same worker, from elsewhere
	taking.Store(&takeOver)
	wantDenied(t, "write", mine.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}))
	must(t, m.Refresh(ctx))
	if m.IsProvisioned() {
		t.Error("the write was refused and done")
	}
	change := func() { must(t, m.SetHostname(ctx, "other")) } // a conflict about the machine
	taking.Store(&change)
	claim(t, fenced.Lease(), "a")
	must(t, mine.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}))
}

func TestLeaseMovesWithItsHolderAndCanBeGivenUp(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	first, second := site.Default.WithFence(state.NewFence("")), site.Default.WithFence(state.NewFence(""))
	claim(t, first.Lease(), "a")
	if got := claim(t, second.Lease(), "a"); got != 2 {
		t.Errorf("epoch on another connection = %d, want 2", got)
	}
	old, err := first.Machines().Get(ctx, m.Id())
	must(t, err)
	wantDenied(t, "write on the connection before", old.SetHostname(ctx, "x"))
	must(t, first.Lease().Release(ctx)) // it is not the first one's any more
	_, err = site.Default.Lease().Claim(ctx, "b", leaseTime)
	wantDenied(t, "claim beside an owner", err)
	must(t, second.Lease().Release(ctx))
	must(t, second.Lease().Release(ctx))
	must(t, site.Default.Lease().Wait(ctx))
	now, err := second.Machines().Get(ctx, m.Id())
	must(t, err)
	wantDenied(t, "write after giving the lease up", now.SetHostname(ctx, "x"))
	if got := claim(t, first.Lease(), "b"); got != 3 {
		t.Errorf("epoch of the heir = %d, want 3", got)
	}
	must(t, old.SetHostname(ctx, "x"))
}

func TestLeaseClaimsAreChecked(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	l := site.Default.SiteLease()
	for _, d := range []time.Duration{0, time.Second - 1, time.Minute + 1, -time.Second} {
		if _, err := l.Claim(ctx, "a", d); !errors.Is(err, errors.NotValid) {
			t.Errorf("claim for %v = %v, want it refused", d, err)
		}
	}
	if _, err := l.Claim(ctx, "", time.Second); !errors.Is(err, errors.NotValid) {
		t.Errorf("claim by nobody = %v, want it refused", err)
	}
	claim(t, l, "a")
	claim(t, site.Default.Lease(), "b") // another thing altogether
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Wait(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v, want it given up", err)
	}
}

func TestLeaseGoesWithItsModel(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	lease := site.Default.Lease()
	claim(t, lease, "a")
	waiting := make(chan error, 1)
	go func() { waiting <- lease.Wait(ctx) }()
	model, err := site.Default.Model(ctx)
	must(t, err)
	must(t, model.Destroy(ctx))
	_, err = site.Cleanups().Run(ctx, time.Now())
	must(t, err)
	if err := <-waiting; !errors.Is(err, errors.NotFound) {
		t.Errorf("wait for the lease of a model that is gone = %v, want not found", err)
	}
	if _, err := lease.Claim(ctx, "a", leaseTime); !errors.Is(err, errors.NotFound) {
		t.Errorf("claim of it = %v, want not found", err)
	}
	for _, c := range []string{"leases", "renewals"} {
		page, err := tap.List(ctx, store.Query{Collection: c})
		must(t, err)
		if len(page.Docs) != 0 {
			t.Errorf("%s left: %v", c, page.Docs)
		}
	}
}
