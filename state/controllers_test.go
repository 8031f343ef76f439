package state_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/history"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// threeControllers opens one site three times, each with a connection of its own
// to a double of a MongoDB replica set of three members.
func threeControllers(t testing.TB) (*mongotest.Server, []*statetest.Site) {
	t.Helper()
	server, err := mongotest.Start(mongotest.Config{Members: 3})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	options := state.Options{HostKeys: hostkey.New()}
	var sites []*statetest.Site
	for i := range 3 {
		s, err := mongo.Open(ctx, mongo.Config{URL: server.URL("slipway"), Collections: state.Collections()})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		if i == 0 {
			sites = append(sites, statetest.OpenWith(t, statetest.Config{Store: s, Options: options}))
			continue
		}
		c, err := state.Open(ctx, s, options)
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		model, err := c.State(ctx, sites[0].Default.ModelUUID())
		must(t, err)
		sites = append(sites, &statetest.Site{Controller: c, Store: s, Default: model})
	}
	return server, sites
}

// harmed does work while the server comes to harm.
func harmed(server *mongotest.Server, seed uint64, work func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { server.Harm(rand.New(rand.NewPCG(seed, 1000)), done) })
	defer wg.Wait()
	defer close(done)
	work()
}

// shared is the machines that were added, as each controller has them.
type shared struct {
	mu  sync.Mutex
	ids []string
	of  map[string][]*state.Machine
}

// pick returns one of the youngest machines, as controller c has it; nil if there
// is none.
func (s *shared) pick(dice *rand.Rand, c int) *state.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	young := s.ids[max(0, len(s.ids)-8):]
	if len(young) == 0 {
		return nil
	}
	return s.of[young[dice.IntN(len(young))]][c]
}

// add adds a machine on controller c. All controllers must see it before anybody
// else hears of it. The id is empty if what became of it is unknown.
func (s *shared) add(t *testing.T, sites []*statetest.Site, c int) (string, history.Seen) {
	results, err := sites[c].Default.Machines().Add(ctx, []state.MachineSpec{{Series: "jammy", Jobs: []job.Job{job.HostUnits}}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return "", certain(refusalOf(err))
	}
	id := results[0].Machine.Id()
	var ms []*state.Machine
	for i, site := range sites {
		m, err := site.Default.Machines().Get(ctx, id)
		if errors.Is(err, errors.NotFound) {
			t.Errorf("machine %s was added on controller %d, and controller %d does not know it", id, c, i)
		}
		if err != nil {
			return id, history.Seen{}
		}
		ms = append(ms, m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[id] != nil {
		t.Errorf("two machines were given the id %s", id)
	}
	s.ids, s.of[id] = append(s.ids, id), ms
	return id, history.Seen{}
}

// certain returns what was seen of a deed that was refused; its outcome is unknown
// if that is no refusal of the state.
func certain(refusal history.Refusal) history.Seen {
	known := []history.Refusal{"", history.NotAlive, history.AlreadySet, history.NotDead, history.NotFound, history.Contention}
	return history.Seen{Refusal: refusal, Unknown: !slices.Contains(known, refusal)}
}

// TestHistoriesOfControllersCanBeExplained has clients of three controllers add
// machines and move them through their lives, while primaries change and
// connections are cut, and looks for an order of one deed at a time that
// explains what they saw.
func TestHistoriesOfControllersCanBeExplained(t *testing.T) {
	server, sites := threeControllers(t)
	base := history.Seed(t)
	machines := &shared{of: map[string][]*state.Machine{}}
	do := func(dice *rand.Rand, client int) (*history.Deed, func() history.Seen) {
		if dice.IntN(12) == 0 { // somebody's write is done, and its answer lost
			server.Inject(mongotest.Fault{Command: "update", Effect: mongotest.CutAfter})
		}
		c := client % len(sites)
		m := machines.pick(dice, c)
		if m == nil || dice.IntN(8) == 0 {
			d := &history.Deed{What: "add"}
			return d, func() (out history.Seen) {
				d.Machine, out = machines.add(t, sites, c)
				return out
			}
		}
		d := history.Any(dice, client, m.Id())
		return d, func() history.Seen {
			out := perform(sites[c].Default, m, *d)
			if out.Refusal != "" {
				return certain(out.Refusal)
			}
			return out
		}
	}
	harmed(server, base, func() {
		done := history.Record(history.Recording{Clients: 6, Deeds: 60, Seed: base, Do: do})
		unknown := 0
		for _, op := range done {
			if op.Output.(history.Seen).Unknown {
				t.Logf("outcome unknown: %s", history.Describe(op.Input, op.Output))
				unknown++
			}
		}
		t.Logf("%d machines, %d deeds of %d with an unknown outcome", len(machines.ids), unknown, len(done))
		history.Explain(t, history.Machines(history.Seen{}), done)
	})
	sameEverywhere(t, sites)
}

// sameEverywhere checks that all controllers have the same machines in the end.
func sameEverywhere(t *testing.T, sites []*statetest.Site) {
	t.Helper()
	var first map[string]history.Seen
	for i, site := range sites {
		all, err := site.Default.Machines().All(ctx)
		must(t, err)
		mine := map[string]history.Seen{}
		for _, m := range all {
			mine[m.Id()] = seenOf(m)
		}
		if i == 0 {
			first = mine
		} else if !maps.Equal(first, mine) {
			t.Errorf("controller %d has machines %v, and controller 0 %v", i, mine, first)
		}
	}
}

// TestHistoriesOfWatchersOfOtherControllers is TestHistoriesOfWatchers with writers
// and watchers on three controllers, and faults.
func TestHistoriesOfWatchersOfOtherControllers(t *testing.T) {
	server, sites := threeControllers(t)
	base := history.Seed(t)
	harmed(server, base, func() { watchHistories(t, base, sites...) })
}

// BenchmarkCommitToWatcher measures how long it takes until a watcher has a change:
// from the moment at which its writer knows that it is committed (p50, p99; 0 if
// the watcher has it by then), and from the call on (call-p50, call-p99). On the
// embedded store the watcher is one of the same controller, and on the double one
// of another controller.
func BenchmarkCommitToWatcher(b *testing.B) {
	b.Run("store=embedded", func(b *testing.B) {
		site := statetest.Open(b)
		commitToWatcher(b, site, site)
	})
	b.Run("store=double", func(b *testing.B) {
		_, sites := threeControllers(b)
		commitToWatcher(b, sites[0], sites[1])
	})
}

func commitToWatcher(b *testing.B, writes, watches *statetest.Site) {
	m := statetest.AddMachine(b, writes.Default, state.MachineSpec{})
	there, err := watches.Default.Machines().Get(ctx, m.Id())
	must(b, err)
	w, err := there.WatchParts(ctx, state.StatusPart)
	must(b, err)
	defer w.Kill()
	<-w.Changes()
	var committed, called []time.Duration
	for n := 0; b.Loop(); n++ {
		heard := make(chan time.Time, 1)
		go func() {
			<-w.Changes()
			heard <- time.Now()
		}()
		call := time.Now()
		must(b, m.SetStatus(ctx, status.Info{Status: status.Started, Message: fmt.Sprint(n)}))
		answer := time.Now()
		at := <-heard
		committed, called = append(committed, max(0, at.Sub(answer))), append(called, at.Sub(call))
	}
	for prefix, took := range map[string][]time.Duration{"": committed, "call-": called} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), prefix+"p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), prefix+"p99-µs")
	}
}
