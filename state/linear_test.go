package state_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// seed returns what a test that leaves things to chance starts from: SEED, or something
// new, which is printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		n = rand.Uint64()
	}
	t.Logf("SEED=%d", n)
	return n
}

// deed is something that a client does to a machine: add, read, record, set its
// status, destroy, kill or remove; or, about a lease, claim or write.
type deed struct {
	what    string
	machine string
	id      instance.ID // of record
	message string      // of status
	client  int         // of claim and write
}

// seen is what came back of a deed.
type seen struct {
	life     life.Value // of read; empty means that the machine is gone
	instance instance.ID
	message  string // of the status
	refusal  string // empty means done
	unknown  bool   // the deed may have been done, or may yet be
}

// machineHistory is what a machine should do, one deed at a time, that is as first
// in the beginning. Its state is what read sees.
func machineHistory(first seen) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[string][]porcupine.Operation{}
			for _, op := range history {
				m := op.Input.(deed).machine
				parts[m] = append(parts[m], op)
			}
			var out [][]porcupine.Operation
			for _, p := range parts {
				out = append(out, p)
			}
			return out
		},
		Init: func() any { return first },
		Step: func(before, input, output any) (bool, any) {
			now, in, out := before.(seen), input.(deed), output.(seen)
			want, next := "", now
			switch in.what {
			case "read":
				return out.unknown || now == out, now
			case "add":
				if now != (seen{}) {
					return out.unknown, now
				}
				next.life = life.Alive
			case "status":
				if now.life == "" {
					want = errors.NotFound.Error()
				} else {
					next.message = in.message
				}
			case "record":
				switch {
				case now.life != life.Alive:
					want = state.ErrNotAlive.Error()
				case now.instance != "":
					want = state.ErrAlreadySet.Error()
				default:
					next.instance = in.id
				}
			case "destroy":
				if now.life == life.Alive {
					next.life = life.Dying
				}
			case "kill":
				if now.life != "" {
					next.life = life.Dead
				}
			case "remove":
				switch now.life {
				case "":
				case life.Dead:
					next = seen{}
				default:
					want = state.ErrNotDead.Error()
				}
			}
			if out.refusal == kind.Contention.Error() { // it gave up
				return true, now
			}
			return out.unknown || out.refusal == want, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// refusalOf returns which of the known refusals err is, or its text.
func refusalOf(err error) string {
	for _, known := range []errors.ConstError{state.ErrNotAlive, state.ErrAlreadySet, state.ErrNotDead, kind.LeaseDenied,
		kind.Contention, errors.NotFound} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// record runs clients at once, each of which does so many deeds, and returns their
// history.
func record(clients, deeds int, seed uint64, do func(dice *rand.Rand, client int) (*deed, func() seen)) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(c)))
			for range deeds {
				d, act := do(dice, c)
				op := porcupine.Operation{ClientId: c, Call: time.Now().UnixNano()}
				out := act()
				op.Return = time.Now().UnixNano()
				op.Input, op.Output = *d, out
				mu.Lock()
				if out.unknown { // its client goes on, and the deed may be done at any later time
					op.ClientId, op.Return = clients+len(history), math.MaxInt64
				}
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

// explain looks for an order of one deed at a time that explains a history.
func explain(t *testing.T, m porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	began := time.Now()
	switch porcupine.CheckOperationsTimeout(m, history, 2*time.Minute) {
	case porcupine.Illegal:
		t.Errorf("no order of %d deeds explains what was seen", len(history))
	case porcupine.Unknown:
		t.Errorf("no order of %d deeds was found in 2 minutes", len(history))
	default:
		t.Logf("an order of %d deeds was found in %v", len(history), time.Since(began).Round(time.Millisecond))
	}
}

func TestHistoriesOfMachinesCanBeExplained(t *testing.T) {
	site := statetest.Open(t)
	const machines, clients, deeds = 12, 8, 40
	ms := map[string]*state.Machine{}
	var ids []string
	for range machines {
		m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
		ms[m.Id()], ids = m, append(ids, m.Id())
	}
	history := record(clients, deeds, seed(t), func(dice *rand.Rand, client int) (*deed, func() seen) {
		d := anyDeed(dice, client, ids[dice.IntN(machines)])
		return d, func() seen { return perform(site.Default, ms[d.machine], *d) }
	})
	explain(t, machineHistory(seen{life: life.Alive}), history)
}

// anyDeed is something that a client may do to a machine that was added.
func anyDeed(dice *rand.Rand, client int, machine string) *deed {
	whats := []string{"read", "read", "read", "record", "record", "status", "status", "destroy", "kill", "remove"}
	unique := fmt.Sprintf("i-%d-%d", client, dice.Int())
	return &deed{what: whats[dice.IntN(len(whats))], machine: machine, id: instance.ID(unique), message: unique}
}

// perform does anything but add.
func perform(st *state.State, m *state.Machine, d deed) seen {
	switch d.what {
	case "record":
		return seen{refusal: refusalOf(m.SetInstanceInfo(ctx, state.InstanceInfo{ID: d.id, Nonce: "n"}))}
	case "status":
		return seen{refusal: refusalOf(m.SetStatus(ctx, status.Info{Status: status.Started, Message: d.message}))}
	case "destroy":
		return seen{refusal: refusalOf(m.Destroy(ctx))}
	case "kill":
		return seen{refusal: refusalOf(m.EnsureDead(ctx))}
	case "remove":
		return seen{refusal: refusalOf(m.Remove(ctx))}
	}
	fresh, err := st.Machines().Get(ctx, d.machine)
	if errors.Is(err, errors.NotFound) {
		return seen{}
	}
	if err != nil {
		return seen{refusal: err.Error()}
	}
	id, _ := fresh.InstanceId() // empty if there is none
	return seen{life: fresh.Life(), instance: id, message: fresh.Status().Message}
}

// TestHistoriesOfLeasesCanBeExplained has connections of one worker take the
// lease from each other, and write: a write is done if its connection is the last
// that claimed, and else refused.
func TestHistoriesOfLeasesCanBeExplained(t *testing.T) {
	site := statetest.Open(t)
	const clients, deeds = 6, 40
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	var leases []*state.Lease
	var fenced []*state.Machine
	for range clients {
		st := site.Default.WithFence(state.NewFence(""))
		mine, err := st.Machines().Get(ctx, m.Id())
		must(t, err)
		leases, fenced = append(leases, st.Lease()), append(fenced, mine)
	}
	model := porcupine.Model{
		Init: func() any { return -1 },
		Step: func(owner, input, output any) (bool, any) {
			in, out := input.(deed), output.(seen)
			if in.what == "claim" {
				// A claim that is overtaken before it has ended is denied.
				return out.refusal == "" || out.refusal == kind.LeaseDenied.Error(), in.client
			}
			return (out.refusal == "") == (owner == in.client), owner
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
	history := record(clients, deeds, seed(t), func(dice *rand.Rand, client int) (*deed, func() seen) {
		if dice.IntN(3) == 0 {
			return &deed{what: "claim", client: client}, func() seen {
				_, err := leases[client].Claim(ctx, "worker", time.Minute)
				return seen{refusal: refusalOf(err)}
			}
		}
		return &deed{what: "write", client: client}, func() seen {
			return seen{refusal: refusalOf(fenced[client].SetInstanceStatus(ctx, status.Info{Status: status.Running}))}
		}
	})
	explain(t, model, history)
}

// TestHistoriesOfWatchers has many writers move machines through their lives, and
// watchers that read slowly. To each watcher the lives go forward, no change
// but the removal of a dead machine is missed in the end, and no machine is named
// more often than it changed.
func TestHistoriesOfWatchers(t *testing.T) {
	site := statetest.Open(t)
	watchHistories(t, seed(t), site)
}

// watchHistories spreads the writers and watchers over a site's controllers.
func watchHistories(t *testing.T, base uint64, sites ...*statetest.Site) {
	const machines, writers, watchers = 60, 6, 8
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var reading sync.WaitGroup
	for w := range watchers {
		site := sites[w%len(sites)]
		follow, err := site.Default.Machines().Watch(ctx)
		must(t, err)
		reading.Go(func() {
			defer follow.Kill()
			dice := rand.New(rand.NewPCG(base, uint64(100+w)))
			follows(t, site.Default, follow.Changes(), dice, stop)
		})
	}
	for w := range writers {
		site := sites[w%len(sites)]
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(base, uint64(w)))
			for range machines / writers {
				m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
				must(t, m.SetStatus(ctx, status.Info{Status: status.Started})) // which is no change of its life
				if dice.IntN(2) == 0 {
					must(t, m.Destroy(ctx))
				}
				if dice.IntN(2) == 0 {
					must(t, m.EnsureDead(ctx))
					must(t, m.SetInstanceStatus(ctx, status.Info{Status: status.Stopped}))
					if dice.IntN(2) == 0 {
						must(t, m.Remove(ctx))
					}
				}
			}
		})
	}
	wg.Wait()
	for _, site := range sites {
		flush(t, site)
	}
	close(stop)
	reading.Wait()
}

// rank orders what a machine goes through.
var rank = map[life.Value]int{"": 0, life.Alive: 1, life.Dying: 2, life.Dead: 3}

// gone is the rank of a machine that has been removed.
const gone = 4

// follows reads one watcher until it is told to stop and has read everything. It
// then knows the life of each machine.
func follows(t *testing.T, st *state.State, changes <-chan []string, dice *rand.Rand, stop <-chan struct{}) {
	known, named := map[string]int{}, map[string]int{}
	take := func(ids []string) {
		for _, id := range ids {
			named[id]++
			now := gone
			if m, err := st.Machines().Get(ctx, id); err == nil {
				now = rank[m.Life()]
			} else if !errors.Is(err, errors.NotFound) {
				t.Errorf("machine %s: %v", id, err)
			}
			if now < known[id] {
				t.Errorf("the life of machine %s went backwards, from %d to %d", id, known[id], now)
			}
			known[id] = now
		}
	}
	for running := true; running; {
		select {
		case ids := <-changes:
			take(ids)
			<-time.After(time.Duration(dice.IntN(3)) * time.Millisecond)
		case <-stop:
			running = false
		}
	}
	select { // at most one event waits
	case ids := <-changes:
		take(ids)
	default:
	}
	all, err := st.Machines().All(ctx)
	must(t, err)
	there := map[string]bool{}
	for _, m := range all {
		there[m.Id()] = true
		if known[m.Id()] == 0 && m.Life() == life.Dead {
			continue // it came and died between two looks: that is no news
		}
		if known[m.Id()] != rank[m.Life()] {
			t.Errorf("machine %s is %s in the end, and the watcher's reader knows it as %d", m.Id(), m.Life(), known[m.Id()])
		}
	}
	for id, last := range known {
		if !there[id] && last < rank[life.Dead] { // the end of a dead machine is no news
			t.Errorf("machine %s is gone in the end, and the watcher's reader knows it as %d", id, last)
		}
		if most := min(last, rank[life.Dead]); named[id] > most {
			t.Errorf("machine %s was named %d times, and has changed %d times", id, named[id], most)
		}
	}
}
