package state_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

// clean runs what there is to clean up.
func clean(t *testing.T, site *statetest.Site, now time.Time) (next time.Time) {
	t.Helper()
	next, err := site.Cleanups().Run(ctx, now)
	must(t, err)
	return next
}

func isGone(t *testing.T, st *state.State, id string) bool {
	t.Helper()
	_, err := st.Machines().Get(ctx, id)
	if err != nil && !errors.Is(err, errors.NotFound) {
		t.Fatal(err)
	}
	return err != nil
}

func nest(t *testing.T, st *state.State) *state.Machine {
	t.Helper()
	host := statetest.AddMachine(t, st, state.MachineSpec{InstanceID: "i-0", Nonce: "n"})
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.KVM})
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0/lxd/0", ContainerType: container.LXD})
	return host
}

func TestForceDestroy(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	host := nest(t, st)
	w := site.Cleanups().Watch()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	must(t, host.ForceDestroy(ctx))
	must(t, host.ForceDestroy(ctx)) // asked twice
	wantNotice(t, w)
	if got := get(t, st, "0").Life(); got != life.Alive {
		t.Errorf("life %s before the cleaner came, want alive", got)
	}
	asked := time.Now()
	next := clean(t, site, asked)
	if next.Before(asked.Add(state.ForceLimit-time.Minute)) || next.After(asked.Add(state.ForceLimit)) {
		t.Errorf("next run in %v, want up to %v", next.Sub(asked), state.ForceLimit)
	}
	m := get(t, st, "0")
	if m.Life() != life.Dead || len(m.Containers()) != 0 {
		t.Errorf("life %s, containers %q; want dead, none", m.Life(), m.Containers())
	}
	for _, id := range []string{"0/lxd/0", "0/kvm/0", "0/lxd/0/lxd/0"} {
		if !isGone(t, st, id) {
			t.Errorf("%s is still there", id)
		}
	}
	// Nobody stops the instance; the record goes all the same.
	if next := clean(t, site, next); !next.IsZero() || !isGone(t, st, "0") {
		t.Errorf("machine gone: %v, next run %v", isGone(t, st, "0"), next)
	}
	if next := clean(t, site, asked.Add(time.Hour)); !next.IsZero() {
		t.Errorf("something is left to do at %v", next)
	}
	must(t, host.ForceDestroy(ctx)) // it is gone
}

// TestSettingTheClockMovesNoDeadline sets the clock of the controller in both
// directions after the end of a machine was asked for.
func TestSettingTheClockMovesNoDeadline(t *testing.T) {
	for _, jump := range []time.Duration{0, 48 * time.Hour, -48 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var wrong atomic.Int64
			site := statetest.OpenWith(t, statetest.Config{Store: storetest.New(t, state.Collections()),
				Options: state.Options{Now: func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }}})
			m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
			wrong.Store(int64(jump))
			must(t, m.ForceDestroy(ctx)) // by the clock that is wrong
			wrong.Store(0)
			began := time.Now()
			for next := clean(t, site, time.Now()); !isGone(t, site.Default, m.Id()); next = clean(t, site, time.Now()) {
				time.Sleep(time.Until(next))
			}
			if took := time.Since(began); took > state.ForceLimit {
				t.Errorf("clock off by %v: the record is gone after %v, want at most %v", jump, took, state.ForceLimit)
			}
		})
	}
}

func TestForceDestroyLeavesTheEndToTheProvisioner(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	host := nest(t, site.Default)
	must(t, host.ForceDestroy(ctx))
	clean(t, site, time.Now())
	must(t, host.Remove(ctx)) // as the provisioner does
	if next := clean(t, site, time.Now()); !next.IsZero() {
		t.Errorf("something is left to do at %v", next)
	}
}

func TestMarkedMachinesAreRemoved(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	statetest.AddMachine(t, st, state.MachineSpec{})
	wantError(t, m.MarkForRemoval(ctx), "cannot remove machine 0: machine is not dead", state.ErrNotDead)
	must(t, m.EnsureDead(ctx))
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.LXD}) // late
	must(t, m.MarkForRemoval(ctx))
	must(t, m.MarkForRemoval(ctx))
	if ids, err := st.Machines().MarkedForRemoval(ctx); err != nil || len(ids) != 1 || ids[0] != "0" {
		t.Errorf("marked: %q, %v", ids, err)
	}
	clean(t, site, time.Now())
	if !isGone(t, st, "0") || !isGone(t, st, "0/lxd/0") || isGone(t, st, "1") {
		t.Error("not exactly machine 0 and what it hosts are gone")
	}
	if ids, err := st.Machines().MarkedForRemoval(ctx); err != nil || len(ids) != 0 {
		t.Errorf("still marked: %q, %v", ids, err)
	}
	wantError(t, m.MarkForRemoval(ctx), "machine 0 not found", errors.NotFound)
}

func TestDestroyModel(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	st := site.Default
	host := nest(t, st)
	model, err := st.Model(ctx)
	must(t, err)
	must(t, model.RecordLogin(ctx, "admin", time.Now()))
	must(t, model.Destroy(ctx))
	must(t, model.Destroy(ctx))
	must(t, model.Refresh(ctx))
	if model.Life() != life.Dying {
		t.Errorf("life %s, want dying", model.Life())
	}
	results, err := st.Machines().Add(ctx, []state.MachineSpec{{Series: "jammy", Jobs: units()}})
	must(t, err)
	wantError(t, results[0].Err, `cannot add a new machine: model "default" is no longer alive`, state.ErrModelNotAlive)
	clean(t, site, time.Now())
	if got := get(t, st, "0").Life(); got != life.Dead {
		t.Errorf("machine is %s, want dead", got)
	}
	w := site.Cleanups().Watch()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	must(t, host.Remove(ctx))
	wantNotice(t, w) // the cleaner hears that the model is empty
	clean(t, site, time.Now())
	if _, err := site.State(ctx, st.ModelUUID()); !errors.Is(err, errors.NotFound) {
		t.Errorf("the model is still there: %v", err)
	}
	for _, c := range state.Collections() {
		page, err := tap.List(ctx, store.Query{Collection: c.Name, Prefix: st.ModelUUID()})
		must(t, err)
		if len(page.Docs) > 0 {
			t.Errorf("left over: %s %q", c.Name, page.Docs[0].ID)
		}
	}
	// The name is free again.
	_, err = site.Models().Add(ctx, state.ModelSpec{Name: "default", Owner: "admin", Config: map[string]any{"type": "simulated"}})
	must(t, err)
	management, err := site.Management.Model(ctx)
	must(t, err)
	if err := management.Destroy(ctx); !errors.Is(err, errors.NotSupported) {
		t.Errorf("destroying the controller model: %v", err)
	}
}

func TestOneFailedCleanupDoesNotHoldUpTheRest(t *testing.T) {
	var failing atomic.Bool
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if failing.Load() && c.Method == "Apply" && strings.HasSuffix(c.Keys[0].ID, ":1") {
			return errors.New("disk full")
		}
		return nil
	})
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	st := site.Default
	for range 3 {
		m := statetest.AddMachine(t, st, state.MachineSpec{})
		must(t, m.EnsureDead(ctx))
		must(t, m.MarkForRemoval(ctx))
	}
	failing.Store(true)
	now := time.Now()
	next, err := site.Cleanups().Run(ctx, now)
	if err == nil || !next.After(now) || next.After(now.Add(time.Minute)) {
		t.Errorf("Run = in %v, %v; want an error and to run again soon", next.Sub(now), err)
	}
	if !isGone(t, st, "0") || isGone(t, st, "1") || !isGone(t, st, "2") {
		t.Error("not exactly the machines that can be removed are gone")
	}
	failing.Store(false)
	if next := clean(t, site, next); !next.IsZero() || !isGone(t, st, "1") {
		t.Error("the next run does not do the rest")
	}
}
