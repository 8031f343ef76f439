package state_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

// modelMachine is what a machine should be.
type modelMachine struct {
	life       life.Value
	instance   instance.ID
	containers map[string]bool
}

// machineModel is what the machines of a model should be after what was done to
// them. Each action does one thing to both, and Check compares.
type machineModel struct {
	site     *statetest.Site
	st       *state.State
	machines map[string]*modelMachine
	forced   map[string]bool // by ids; until they are removed, they may host nothing
	used     map[string]bool // every id there ever was
	watched  watchLog
	step     int
}

// watchLog checks that what a watcher tells makes sense.
type watchLog struct {
	w    watcher.StringsWatcher
	told map[string]bool // named by an event that has been read
	over map[string]bool // dead or gone when such an event was read: not to be named again
	owed map[string]bool // changed since the last event was read
}

func (mm *machineModel) pick(t *rapid.T) (string, *state.Machine) {
	ids := slices.Sorted(maps.Keys(mm.machines))
	if len(ids) == 0 {
		t.Skip("no machines")
	}
	id := rapid.SampledFrom(ids).Draw(t, "id")
	m, err := mm.st.Machines().Get(ctx, id)
	if err != nil {
		t.Fatalf("cannot get machine %s: %v", id, err)
	}
	return id, m
}

// changed notes a change of a top-level machine's life.
func (mm *machineModel) changed(id string) {
	if tag.Parent(id) == "" {
		mm.watched.owed[id] = true
	}
}

func (mm *machineModel) add(t *rapid.T, spec state.MachineSpec) {
	spec.Series, spec.Jobs = "jammy", units()
	results, err := mm.st.Machines().Add(ctx, []state.MachineSpec{spec})
	if err != nil || results[0].Err != nil {
		t.Fatalf("cannot add: %v, %v", err, results)
	}
	id := results[0].Machine.Id()
	if mm.used[id] {
		t.Fatalf("id %s is used again", id)
	}
	mm.used[id] = true
	mm.machines[id] = &modelMachine{life: life.Alive, containers: map[string]bool{}}
	if parent := tag.Parent(id); parent != "" {
		mm.machines[parent].containers[id] = true
	}
	mm.changed(id)
}

func (mm *machineModel) Add(t *rapid.T) { mm.add(t, state.MachineSpec{}) }

func (mm *machineModel) AddContainer(t *rapid.T) {
	id, _ := mm.pick(t)
	if tag.NestingLevel(id) > 2 {
		t.Skip("deep enough")
	}
	mm.add(t, state.MachineSpec{Parent: id, ContainerType: rapid.SampledFrom(container.Types()).Draw(t, "type")})
}

func (mm *machineModel) end(t *rapid.T, to life.Value, do func(*state.Machine) error) {
	id, m := mm.pick(t)
	want := mm.machines[id]
	err := do(m)
	if len(want.containers) > 0 {
		if !errors.Is(err, kind.HasContainers) {
			t.Fatalf("%s with containers to %s: %v", id, to, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s to %s: %v", id, to, err)
	}
	if want.life.Before(to) {
		want.life = to
		mm.changed(id)
	}
}

func (mm *machineModel) Destroy(t *rapid.T) {
	mm.end(t, life.Dying, func(m *state.Machine) error { return m.Destroy(ctx) })
}

func (mm *machineModel) EnsureDead(t *rapid.T) {
	mm.end(t, life.Dead, func(m *state.Machine) error { return m.EnsureDead(ctx) })
}

func (mm *machineModel) Remove(t *rapid.T) {
	id, m := mm.pick(t)
	want := mm.machines[id]
	err := m.Remove(ctx)
	switch {
	case want.life != life.Dead:
		if !errors.Is(err, state.ErrNotDead) {
			t.Fatalf("removing %s, which is %s: %v", id, want.life, err)
		}
		return
	case len(want.containers) > 0:
		if !errors.Is(err, kind.HasContainers) {
			t.Fatalf("removing %s with containers: %v", id, err)
		}
		return
	case err != nil:
		t.Fatalf("removing %s: %v", id, err)
	}
	mm.drop(id)
}

func (mm *machineModel) drop(id string) {
	delete(mm.machines, id)
	if parent := mm.machines[tag.Parent(id)]; parent != nil {
		delete(parent.containers, id)
	}
}

func (mm *machineModel) ForceDestroy(t *rapid.T) {
	id, m := mm.pick(t)
	if err := m.ForceDestroy(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := mm.site.Cleanups().Run(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	mm.forced[id] = true
	for other := range maps.Clone(mm.machines) {
		for host := range mm.forced { // earlier ones are looked at again
			if strings.HasPrefix(other, host+"/") && mm.machines[host] != nil {
				mm.drop(other)
				break
			}
		}
	}
	want := mm.machines[id] // nil if it was in a machine that was ended before
	if want != nil && want.life != life.Dead {
		want.life = life.Dead
		mm.changed(id)
	}
}

// Provision sets instance info twice at once: one attempt wins, if any may.
func (mm *machineModel) Provision(t *rapid.T) {
	id, _ := mm.pick(t)
	want := mm.machines[id]
	mm.step++
	var errs [2]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			m, err := mm.st.Machines().Get(ctx, id)
			if err == nil {
				name := instance.ID(fmt.Sprintf("i-%d-%d", mm.step, i))
				err = m.SetInstanceInfo(ctx, state.InstanceInfo{ID: name, Nonce: "nonce-" + string(name)})
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, err := range errs {
		switch {
		case want.life != life.Alive:
			if !errors.Is(err, state.ErrNotAlive) {
				t.Fatalf("provisioning %s, which is %s: %v", id, want.life, err)
			}
		case err == nil && want.instance == "":
			want.instance = instance.ID(fmt.Sprintf("i-%d-%d", mm.step, i))
		case !errors.Is(err, state.ErrAlreadySet):
			t.Fatalf("provisioning %s again: %v", id, err)
		}
	}
	if want.life == life.Alive && want.instance == "" {
		t.Fatalf("of two attempts on %s none won: %v", id, errs)
	}
}

// Read reads the watcher's event, if there is one.
func (mm *machineModel) Read(t *rapid.T) {
	mm.flush(t)
	log := &mm.watched
	named := map[string]bool{}
	select {
	case ids := <-log.w.Changes():
		if len(ids) == 0 {
			t.Fatal("an empty event")
		}
		for _, id := range ids {
			if named[id] {
				t.Fatalf("%s is named twice in one event", id)
			}
			named[id] = true
		}
	default:
	}
	for id := range named {
		if !log.owed[id] {
			t.Fatalf("%s is named and did not change (over: %v)", id, log.over[id])
		}
	}
	for id := range log.owed {
		m := mm.machines[id]
		over := m == nil || m.life == life.Dead
		// What came and went before it was looked at need not be named.
		if !named[id] && (log.told[id] || !over) {
			t.Fatalf("%s changed and is not named", id)
		}
		log.told[id] = log.told[id] || named[id]
		log.over[id] = over
	}
	clear(log.owed)
}

// flush waits until the hub has delivered everything so far.
func (mm *machineModel) flush(t *rapid.T) {
	w := mm.site.WatchControllerConfig()
	defer w.Kill()
	<-w.Changes()
	mm.step++
	if err := mm.site.UpdateControllerConfig(ctx, map[string]any{"flush": mm.step}, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Changes():
	case <-time.After(patience):
		t.Fatal("no change comes through")
	}
}

// Check compares every machine with what it should be.
func (mm *machineModel) Check(t *rapid.T) {
	all, err := mm.st.Machines().All(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(mm.machines) {
		t.Fatalf("%d machines, want %d", len(all), len(mm.machines))
	}
	for _, m := range all {
		want := mm.machines[m.Id()]
		if want == nil {
			t.Fatalf("%s should be gone", m.Id())
		}
		id, err := m.InstanceId()
		if want.instance == "" && !errors.Is(err, errors.NotProvisioned) || id != want.instance {
			t.Fatalf("%s has instance %q, want %q", m.Id(), id, want.instance)
		}
		if want.instance != "" && !m.CheckProvisioned("nonce-"+string(want.instance)) {
			t.Fatalf("%s has an instance and not its nonce", m.Id())
		}
		containers := m.Containers()
		slices.Sort(containers)
		if m.Life() != want.life || !slices.Equal(containers, slices.Sorted(maps.Keys(want.containers))) {
			t.Fatalf("%s is %s with %q, want %s with %v", m.Id(), m.Life(), m.Containers(), want.life, want.containers)
		}
	}
}

func TestMachinesBehaveAsTheirModel(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	models := 0
	rapid.Check(t, func(t *rapid.T) {
		models++
		mm := newMachineModel(t, site, fmt.Sprintf("model-%d", models))
		defer mm.watched.w.Kill()
		t.Repeat(map[string]func(*rapid.T){
			"": mm.Check, "add": mm.Add, "add container": mm.AddContainer, "destroy": mm.Destroy,
			"ensure dead": mm.EnsureDead, "remove": mm.Remove, "force destroy": mm.ForceDestroy,
			"provision": mm.Provision, "read": mm.Read,
		})
		mm.Read(t)
	})
}

// newMachineModel returns a new, empty model of a site.
func newMachineModel(t *rapid.T, site *statetest.Site, name string) *machineModel {
	m, err := site.Models().Add(ctx, state.ModelSpec{Name: name, Owner: "admin", Config: map[string]any{"type": "simulated"}})
	if err != nil {
		t.Fatal(err)
	}
	mm := &machineModel{site: site, st: m.State(), machines: map[string]*modelMachine{},
		used: map[string]bool{}, forced: map[string]bool{},
		watched: watchLog{told: map[string]bool{}, over: map[string]bool{}, owed: map[string]bool{}}}
	if mm.watched.w, err = mm.st.Machines().Watch(ctx); err != nil {
		t.Fatal(err)
	}
	<-mm.watched.w.Changes()
	return mm
}

// jsonValue draws what may stand in a status's data.
func jsonValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 5+min(depth, 2)).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
		case 6:
			return rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "list")
		case 7:
			return rapid.MapOfN(rapid.String(), jsonValue(depth-1), 0, 3).Draw(t, "map")
		}
		return rapid.String().Draw(t, "text")
	})
}

func TestStatusesAreReturnedAsTheyWereSet(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	rapid.Check(t, func(t *rapid.T) {
		want := status.Info{
			Status:  rapid.SampledFrom([]status.Status{status.Started, status.Stopped, status.Error, status.Pending}).Draw(t, "status"),
			Message: rapid.StringN(1, 50, -1).Draw(t, "message"),
			Data:    rapid.MapOfN(rapid.StringMatching(`[a-z.$-]{1,8}`), jsonValue(2), 1, 4).Draw(t, "data"),
		}
		before := time.Now()
		if err := m.SetStatus(ctx, want); err != nil {
			t.Fatal(err)
		}
		if err := m.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		got := m.Status()
		if got.Since.Before(before.Round(0)) {
			t.Fatalf("set at %v, before %v", got.Since, before)
		}
		got.Since = time.Time{}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %#v, want %#v", got, want)
		}
	})
}
