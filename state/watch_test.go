package state_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
	"github.com/slipway-project/slipway/watcher"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// flush makes sure that every watcher of the site has been told of everything so
// far: it waits for a change of its own to come through the hub, which
// delivers in order.
func flush(t *testing.T, site *statetest.Site) {
	t.Helper()
	w := site.WatchControllerConfig()
	defer w.Kill()
	<-w.Changes()
	must(t, site.UpdateControllerConfig(ctx, map[string]any{"flush": time.Now().String()}, nil))
	select {
	case <-w.Changes():
	case <-time.After(patience):
		t.Fatal("no change comes through")
	}
}

// wantNothing checks that a watcher has no event for what happened so far.
func wantNothing[E any](t *testing.T, site *statetest.Site, c <-chan E) {
	t.Helper()
	flush(t, site)
	select {
	case e, ok := <-c:
		t.Fatalf("unexpected event %v (open: %v)", e, ok)
	default:
	}
}

// wantNotice checks that a watcher has one event.
func wantNotice(t *testing.T, w watcher.NotifyWatcher) {
	t.Helper()
	select {
	case _, ok := <-w.Changes():
		if !ok {
			t.Fatalf("watcher ended: %v", w.Wait())
		}
	case <-time.After(patience):
		t.Fatal("no event")
	}
}

func watchMachines(t *testing.T, st *state.State) watcher.StringsWatcher {
	t.Helper()
	w, err := st.Machines().Watch(ctx)
	must(t, err)
	t.Cleanup(w.Kill)
	return w
}

func watchContainers(t *testing.T, m *state.Machine, typ container.Type) watcher.StringsWatcher {
	t.Helper()
	w, err := m.WatchContainers(ctx, typ)
	must(t, err)
	t.Cleanup(w.Kill)
	return w
}

func TestWatchOneMachinesLife(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	w := watchMachines(t, site.Default)
	wantNext(t, w)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	wantNext(t, w, "0")
	must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}))
	must(t, m.SetStatus(ctx, status.Info{Status: status.Started}))
	wantNothing(t, site, w.Changes())
	must(t, m.Destroy(ctx))
	wantNext(t, w, "0")
	must(t, m.EnsureDead(ctx))
	wantNext(t, w, "0")
	must(t, m.Remove(ctx))
	wantNothing(t, site, w.Changes())
}

func TestWatchStartsWithEveryLife(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	var ms []*state.Machine
	for range 4 {
		ms = append(ms, statetest.AddMachine(t, st, state.MachineSpec{}))
	}
	alive, dying, dead, gone := ms[0], ms[1], ms[2], ms[3]
	must(t, dying.Destroy(ctx))
	must(t, dead.EnsureDead(ctx))
	must(t, gone.EnsureDead(ctx))
	must(t, gone.Remove(ctx))
	w := watchMachines(t, st)
	wantNext(t, w, "0", "1", "2")
	must(t, alive.Destroy(ctx))
	must(t, dying.EnsureDead(ctx))
	must(t, dying.Remove(ctx))
	must(t, dead.Remove(ctx))
	flush(t, site)
	wantNext(t, w, "0", "1")
	wantNothing(t, site, w.Changes())
}

func TestWatchContainers(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	other := statetest.AddMachine(t, st, state.MachineSpec{})
	lxd, all := watchContainers(t, host, container.LXD), watchContainers(t, host, "")
	machines := watchMachines(t, st)
	odd := watchContainers(t, host, "odd")
	wantNext(t, lxd)
	wantNext(t, all)
	wantNext(t, odd)
	wantNext(t, machines, "0", "1")
	in := func(parent string, typ container.Type) *state.Machine {
		return statetest.AddMachine(t, st, state.MachineSpec{Parent: parent, ContainerType: typ})
	}
	first := in("0", container.LXD)
	wantNext(t, lxd, "0/lxd/0")
	wantNext(t, all, "0/lxd/0")
	in("0", container.KVM)
	wantNext(t, all, "0/kvm/0")
	nested := in("0/lxd/0", container.LXD)
	in(other.Id(), container.LXD)
	wantNothing(t, site, lxd.Changes())
	wantNothing(t, site, all.Changes())
	wantNext(t, watchContainers(t, host, container.LXD), "0/lxd/0")
	wantNext(t, watchContainers(t, host, ""), "0/kvm/0", "0/lxd/0")
	wantError(t, first.Destroy(ctx), `machine 0/lxd/0 is hosting containers "0/lxd/0/lxd/0"`, nil)
	must(t, nested.EnsureDead(ctx))
	must(t, nested.Remove(ctx))
	wantNothing(t, site, all.Changes())
	must(t, first.Destroy(ctx))
	wantNext(t, lxd, "0/lxd/0")
	must(t, first.EnsureDead(ctx))
	wantNext(t, lxd, "0/lxd/0")
	must(t, first.Remove(ctx))
	wantNothing(t, site, lxd.Changes())
	wantNothing(t, site, machines.Changes())
	wantNothing(t, site, odd.Changes())
}

func TestWatchCoalesces(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	w := watchMachines(t, st)
	notify := site.WatchAPIHostPorts()
	t.Cleanup(notify.Kill)
	wantNotice(t, notify)
	for i := range 20 { // nobody reads meanwhile
		m := statetest.AddMachine(t, st, state.MachineSpec{})
		must(t, m.Destroy(ctx))
		must(t, m.EnsureDead(ctx))
		must(t, site.SetAPIHostPorts(ctx, [][]network.HostPort{{{Address: network.NewAddress("10.0.0.1"), Port: 1000 + i}}}))
	}
	flush(t, site)
	ids := next(t, w)
	if len(ids) > 20 || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("an event names something twice: %q", ids)
	}
	wantNothing(t, site, w.Changes())
	wantNotice(t, notify)
	wantNothing(t, site, notify.Changes())
}

func TestDestroyedBeforeItWasSeenIsStillNamedOnce(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	w := watchMachines(t, site.Default)
	wantNext(t, w)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	flush(t, site) // now the event waits to be read
	must(t, m.EnsureDead(ctx))
	must(t, m.Remove(ctx))
	flush(t, site)
	wantNext(t, w, "0")
	wantNothing(t, site, w.Changes())
}

func TestWatchMachineParts(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	watch := func(p state.Part) watcher.NotifyWatcher {
		w, err := m.WatchParts(ctx, p)
		must(t, err)
		t.Cleanup(w.Kill)
		wantNotice(t, w)
		return w
	}
	by := map[state.Part]watcher.NotifyWatcher{}
	for _, p := range []state.Part{state.LifePart, state.StatusPart, state.ConfigPart, state.AddressesPart, state.ContainersPart} {
		by[p] = watch(p)
	}
	whole, err := m.Watch(ctx)
	must(t, err)
	t.Cleanup(whole.Kill)
	wantNotice(t, whole)
	for _, step := range []struct {
		part   state.Part
		change func() error
	}{
		{state.StatusPart, func() error { return m.SetStatus(ctx, status.Info{Status: status.Started}) }},
		{state.StatusPart, func() error { return m.SetInstanceStatus(ctx, status.Info{Status: status.Running}) }},
		{state.ConfigPart, func() error { return m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}) }},
		{state.AddressesPart, func() error { return m.SetMachineAddresses(ctx, network.NewAddresses("10.0.0.1")) }},
		{state.ContainersPart, func() error { return m.SetNoSupportedContainers(ctx) }},
		{state.LifePart, func() error { return m.Destroy(ctx) }},
	} {
		must(t, step.change())
		wantNotice(t, by[step.part])
		if step.part != state.StatusPart {
			wantNotice(t, whole)
		}
		for p, w := range by {
			if p != step.part {
				wantNothing(t, site, w.Changes())
			}
		}
		wantNothing(t, site, whole.Changes())
	}
	must(t, m.EnsureDead(ctx))
	wantNotice(t, whole)
	must(t, m.Remove(ctx))
	wantNotice(t, whole)
	wantNotice(t, by[state.StatusPart]) // a removal concerns every part
}

func TestWatchConfigAndModels(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	w := site.Default.ModelConfig().Watch()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	models, err := site.Models().Watch(ctx)
	must(t, err)
	t.Cleanup(models.Kill)
	if got := next(t, models); len(got) != 2 {
		t.Fatalf("models %q, want two", got)
	}
	must(t, site.Management.ModelConfig().Update(ctx, config.Update{Set: map[string]any{"http-proxy": "http://p"}}))
	must(t, site.Default.ModelConfig().Update(ctx, config.Update{})) // nothing changes
	wantNothing(t, site, w.Changes())
	must(t, site.Default.ModelConfig().Update(ctx, config.Update{Set: map[string]any{"http-proxy": "http://p"}}))
	wantNotice(t, w)
	wantNothing(t, site, models.Changes())
	m, err := site.Models().Add(ctx, state.ModelSpec{Name: "more", Owner: "admin", Config: map[string]any{"type": "simulated"}})
	must(t, err)
	wantNext(t, models, m.UUID())
	must(t, m.Destroy(ctx))
	wantNext(t, models, m.UUID())
}

func TestWatchChangesNamesEverything(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	w := st.WatchChanges()
	t.Cleanup(w.Kill)
	if c := <-w.Changes(); !c.All {
		t.Fatalf("first event %+v, want all", c)
	}
	statetest.AddMachine(t, site.Management, state.MachineSpec{})
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, m.SetStatus(ctx, status.Info{Status: status.Started}))
	must(t, st.ModelConfig().Update(ctx, config.Update{Set: map[string]any{"http-proxy": "http://p"}}))
	model, err := st.Model(ctx)
	must(t, err)
	must(t, model.Destroy(ctx))
	flush(t, site)
	got := <-w.Changes()
	want := []state.EntityID{{Kind: state.MachineKind, ID: "0"}, {Kind: state.ModelConfigKind, ID: st.ModelUUID()},
		{Kind: state.ModelKind, ID: st.ModelUUID()}}
	if got.All || !slices.Equal(got.Entities, want) {
		t.Errorf("changes %+v, want %+v", got, want)
	}
}

// outage makes the store lose the history of changes, and refuse to follow
// them anew until it ends.
type outage struct {
	on   atomic.Bool
	once sync.Once
	lost chan struct{} // closed when the hub has noticed
}

func newOutage(tap *storetest.Tap) *outage {
	o := &outage{lost: make(chan struct{})}
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		switch {
		case !o.on.Load():
			return nil
		case c.Method == "Next":
			return store.ErrHistoryLost
		case c.Method == "Changes":
			o.once.Do(func() { close(o.lost) })
			return errors.New("not now")
		}
		return nil
	})
	return o
}

func (o *outage) start(t *testing.T, site *statetest.Site) {
	t.Helper()
	o.on.Store(true)
	must(t, site.UpdateControllerConfig(ctx, map[string]any{"last": "seen"}, nil)) // releases the hub's waiting call
	select {
	case <-o.lost:
	case <-time.After(patience):
		t.Fatal("the hub does not notice the loss")
	}
}

func (o *outage) end() { o.on.Store(false) }

func TestWatchersSurviveLostHistory(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	outage := newOutage(tap)
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	st := site.Default
	for range 4 {
		statetest.AddMachine(t, st, state.MachineSpec{})
	}
	w, ports, changes := watchMachines(t, st), site.WatchAPIHostPorts(), st.WatchChanges()
	part, err := get(t, st, "0").WatchParts(ctx, state.LifePart)
	must(t, err)
	for _, w := range []watcher.Watcher{ports, changes, part} {
		t.Cleanup(w.Kill)
	}
	wantNext(t, w, "0", "1", "2", "3")
	wantNotice(t, ports)
	wantNotice(t, part)
	<-changes.Changes()

	outage.start(t, site)
	must(t, get(t, st, "0").Destroy(ctx))
	must(t, get(t, st, "1").EnsureDead(ctx))
	must(t, get(t, st, "1").Remove(ctx))
	must(t, get(t, st, "2").EnsureDead(ctx))
	statetest.AddMachine(t, st, state.MachineSpec{})
	outage.end()
	wantNext(t, w, "0", "1", "2", "4")
	wantNotice(t, ports)
	wantNotice(t, part)
	if c := <-changes.Changes(); !c.All {
		t.Errorf("after a loss: %+v, want all", c)
	}
	// And it goes on as before.
	must(t, get(t, st, "2").Remove(ctx))
	must(t, get(t, st, "3").Destroy(ctx))
	wantNext(t, w, "3")
}

func TestWatchersEndWithTheController(t *testing.T) {
	site, mem := statetest.OpenMemory(t)
	st := site.Default
	machine := statetest.AddMachine(t, st, state.MachineSpec{})
	w, killed := watchMachines(t, st), site.WatchAPIHostPorts()
	part, err := machine.Watch(ctx)
	must(t, err)
	killed.Kill()
	killed.Kill()
	if err := killed.Wait(); err != nil {
		t.Errorf("Wait after Kill = %v", err)
	}
	for range killed.Changes() { // ends, for the channel is closed
	}
	must(t, site.Close())
	for _, w := range []watcher.Watcher{w, part} {
		if err := w.Wait(); !errors.Is(err, state.ErrClosed) {
			t.Errorf("Wait = %v, want %v", err, state.ErrClosed)
		}
	}
	for range w.Changes() {
	}
	late := site.WatchAPIHostPorts()
	if err := late.Wait(); !errors.Is(err, state.ErrClosed) {
		t.Errorf("a watcher of a closed state ends with %v", err)
	}
	if _, err := st.Machines().Watch(ctx); !errors.Is(err, state.ErrClosed) {
		t.Errorf("Watch of a closed state = %v", err)
	}
	must(t, mem.Close())
}

func TestWatchersEndWithTheStore(t *testing.T) {
	site, mem := statetest.OpenMemory(t)
	w := watchMachines(t, site.Default)
	must(t, mem.Close())
	if err := w.Wait(); !errors.Is(err, state.ErrClosed) {
		t.Errorf("Wait = %v, want %v", err, state.ErrClosed)
	}
}

func TestManyWatchersCostNoReads(t *testing.T) {
	site, mem := statetest.OpenMemory(t)
	st := site.Default
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	const n = 2000
	goroutines := runtime.NumGoroutine()
	var ws []watcher.NotifyWatcher
	for range n {
		w, err := m.Watch(ctx)
		must(t, err)
		<-w.Changes()
		ws = append(ws, w)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 10 {
		t.Errorf("%d watchers have %d goroutines", n, more)
	}
	mem.Reset()
	must(t, m.Destroy(ctx))
	for _, w := range ws {
		wantNotice(t, w)
	}
	flush(t, site)
	if reads := mem.Counts()["GetAll"]; reads > 4 { // one for the hub, the rest for the changes made here
		t.Errorf("%d bulk reads for one change to %d watchers", reads, n)
	}
	for _, w := range ws {
		w.Kill()
	}
	must(t, m.EnsureDead(ctx)) // nobody is there any more
	flush(t, site)
	if fmt.Sprint(ws[0].Wait()) != "<nil>" {
		t.Error("a killed watcher has an error")
	}
}

// TestAnOldReadTellsANewWatcherNothing holds up the hub between its read of a
// machine and the delivery, while the machine's life goes on.
func TestAnOldReadTellsANewWatcherNothing(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	var hold atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	tap.SetAfter(func(_ context.Context, c storetest.Call) error {
		if c.Method == "GetAll" && len(c.Keys) == 1 && c.Keys[0].Collection == "machines" && hold.CompareAndSwap(true, false) {
			close(held)
			<-release
		}
		return nil
	})
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	old := watchMachines(t, site.Default)
	wantNext(t, old, "0")
	flush(t, site)
	hold.Store(true)
	must(t, m.SetStatus(ctx, status.Info{Status: status.Started}))
	<-held // the hub has read the machine alive
	must(t, m.Destroy(ctx))
	w := watchMachines(t, site.Default)
	wantNext(t, w, "0") // dying
	close(release)
	wantNothing(t, site, w.Changes())
	wantNext(t, old, "0")
}
