package state_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

// callsOf returns how often f calls the store, the hub's calls left out: nobody watches.
func callsOf(t *testing.T, site *statetest.Site, counts func() map[string]int, f func()) map[string]int {
	t.Helper()
	flush(t, site)
	before := counts()
	f()
	after := counts()
	delete(after, "Next")
	for method, n := range after {
		if after[method] = n - before[method]; after[method] == 0 {
			delete(after, method)
		}
	}
	return after
}

// TestSayingTheSameAgainWritesNothing has an agent say what it says at each connection.
func TestSayingTheSameAgainWritesNothing(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	for i, want := range []int{1, 0, 0} {
		got := callsOf(t, site, tap.Counts, func() {
			must(t, m.SetSupportedContainers(ctx, []container.Type{container.LXD}))
		})
		if got["Apply"] != want {
			t.Errorf("time %d: %v, want %d writes", i, got, want)
		}
	}
	must(t, m.SetNoSupportedContainers(ctx))
	if types, known := m.SupportedContainers(); known || types != nil {
		t.Error("a snapshot has changed")
	}
}

func TestBulkCallsCostTheSameForAnyNumber(t *testing.T) {
	for _, n := range []int{1, 400} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			site, tap := statetest.OpenMemory(t)
			st := site.Default
			var tags []tag.Tag
			got := callsOf(t, site, tap.Counts, func() {
				specs := slices.Repeat([]state.MachineSpec{{Series: "jammy", Jobs: units()}}, n)
				results, err := st.Machines().Add(ctx, specs)
				must(t, err)
				for _, r := range results {
					must(t, r.Err)
					tags = append(tags, r.Machine.Tag())
				}
			})
			if want := map[string]int{"GetAll": 1, "Apply": 1}; !maps.Equal(got, want) {
				t.Errorf("adding %d: %v, want %v", n, got, want)
			}
			got = callsOf(t, site, tap.Counts, func() {
				found, err := st.FindEntities(ctx, tags)
				must(t, err)
				for _, f := range found {
					must(t, f.Err)
				}
			})
			if want := map[string]int{"GetAll": 1}; !maps.Equal(got, want) {
				t.Errorf("finding %d: %v, want %v", n, got, want)
			}
			got = callsOf(t, site, tap.Counts, func() {
				all, err := st.Machines().All(ctx)
				must(t, err)
				if len(all) != n {
					t.Errorf("%d machines, want %d", len(all), n)
				}
			})
			if want := map[string]int{"List": 1}; !maps.Equal(got, want) {
				t.Errorf("listing %d: %v, want %v", n, got, want)
			}
		})
	}
}

func TestNewMachinesAreOneDocumentEach(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	before := documents(t, tap)
	specs := slices.Repeat([]state.MachineSpec{{Series: "jammy", Jobs: units()}}, 50)
	_, err := site.Default.Machines().Add(ctx, specs)
	must(t, err)
	if n := documents(t, tap) - before; n != 51 { // and the counter
		t.Errorf("50 machines are %d documents, want 51", n)
	}
}

// TestWatchersStartedDuringChangesMissNothing starts watchers while machines
// come and go. Each reader looks up what it is told of; in the end all know
// the truth.
func TestWatchersStartedDuringChangesMissNothing(t *testing.T) {
	site := statetest.Open(t) // the real store: reads and changes overlap
	st := site.Default
	var writers, readers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 15 {
				results, err := st.Machines().Add(ctx, []state.MachineSpec{{Series: "jammy", Jobs: units()}})
				if err != nil || results[0].Err != nil {
					t.Errorf("cannot add: %v, %v", err, results)
					return
				}
				m := results[0].Machine
				var errs []error
				if i%2 == 0 {
					errs = append(errs, m.Destroy(ctx))
				}
				if i%3 == 0 {
					errs = append(errs, m.EnsureDead(ctx))
				}
				if i%6 == 0 {
					errs = append(errs, m.Remove(ctx))
				}
				for _, err := range errs {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	const n = 12
	views := make([]map[string]life.Value, n)
	watchers := make([]watcher.StringsWatcher, n)
	for i := range n {
		w, err := st.Machines().Watch(ctx)
		must(t, err)
		watchers[i], views[i] = w, map[string]life.Value{}
		readers.Go(func() { follow(t, st, w, views[i]) })
	}
	writers.Wait()
	flush(t, site)
	for _, w := range watchers {
		w.Kill() // what is unread stays readable
	}
	readers.Wait()
	all, err := st.Machines().All(ctx)
	must(t, err)
	for i, view := range views {
		if len(view) < len(all) {
			t.Errorf("watcher %d knows %d machines of %d", i, len(view), len(all))
		}
		for _, m := range all {
			// One that was dead when it was first seen need not be named.
			if got := view[m.Id()]; got != m.Life() && !(got == "" && m.Life() == life.Dead) {
				t.Errorf("watcher %d believes %s to be %q, and it is %s", i, m.Id(), got, m.Life())
			}
			delete(view, m.Id())
		}
		for id, l := range view {
			if l != life.Dead && l != "" {
				t.Errorf("watcher %d believes %s to be %s, and it is gone", i, id, l)
			}
		}
	}
}

// follow keeps a view of the machines' lives as a worker would.
func follow(t *testing.T, st *state.State, w watcher.StringsWatcher, view map[string]life.Value) {
	for {
		select {
		case ids, ok := <-w.Changes():
			if !ok {
				return
			}
			for _, id := range ids {
				m, err := st.Machines().Get(ctx, id)
				switch {
				case errors.Is(err, errors.NotFound):
					view[id] = ""
				case err != nil:
					t.Error(err)
				default:
					view[id] = m.Life()
				}
			}
		case <-time.After(patience):
			t.Error("the watcher neither tells anything nor ends")
			return
		}
	}
}
