package state_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/history"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// refusalOf returns which refusal err is, or its text; empty for none.
func refusalOf(err error) history.Refusal {
	for known, refusal := range map[errors.ConstError]history.Refusal{
		state.ErrNotAlive: history.NotAlive, state.ErrAlreadySet: history.AlreadySet, state.ErrNotDead: history.NotDead,
		kind.LeaseDenied: history.Denied, kind.Contention: history.Contention, errors.NotFound: history.NotFound,
	} {
		if errors.Is(err, known) {
			return refusal
		}
	}
	if err != nil {
		return history.Refusal(err.Error())
	}
	return ""
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
	done := history.Record(history.Recording{Clients: clients, Deeds: deeds, Seed: history.Seed(t), Do: func(dice *rand.Rand, client int) (*history.Deed, func() history.Seen) {
		d := history.Any(dice, client, ids[dice.IntN(machines)])
		return d, func() history.Seen { return perform(site.Default, ms[d.Machine], *d) }
	}})
	history.Explain(t, history.Machines(history.Seen{Life: life.Alive}), done)
}

// perform does anything but add.
func perform(st *state.State, m *state.Machine, d history.Deed) history.Seen {
	switch d.What {
	case "record":
		return history.Seen{Refusal: refusalOf(m.SetInstanceInfo(ctx, state.InstanceInfo{ID: d.Instance, Nonce: "n"}))}
	case "status":
		return history.Seen{Refusal: refusalOf(m.SetStatus(ctx, status.Info{Status: status.Started, Message: d.Message}))}
	case "destroy":
		return history.Seen{Refusal: refusalOf(m.Destroy(ctx))}
	case "kill":
		return history.Seen{Refusal: refusalOf(m.EnsureDead(ctx))}
	case "remove":
		return history.Seen{Refusal: refusalOf(m.Remove(ctx))}
	}
	fresh, err := st.Machines().Get(ctx, d.Machine)
	if errors.Is(err, errors.NotFound) {
		return history.Seen{}
	}
	if err != nil {
		return history.Seen{Refusal: history.Refusal(err.Error())}
	}
	return seenOf(fresh)
}

// seenOf returns what there is to see of a machine.
func seenOf(m *state.Machine) history.Seen {
	id, _ := m.InstanceId() // empty if there is none
	return history.Seen{Life: m.Life(), Instance: id, Message: m.Status().Message}
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
			in, out := input.(history.Deed), output.(history.Seen)
			if in.What == "claim" {
				// A claim that is overtaken before it has ended is denied.
				return out.Refusal == "" || out.Refusal == history.Denied, in.Client
			}
			return (out.Refusal == "") == (owner == in.Client), owner
		},
		DescribeOperation: history.Describe,
	}
	done := history.Record(history.Recording{Clients: clients, Deeds: deeds, Seed: history.Seed(t), Do: func(dice *rand.Rand, client int) (*history.Deed, func() history.Seen) {
		if dice.IntN(3) == 0 {
			return &history.Deed{What: "claim", Client: client}, func() history.Seen {
				_, err := leases[client].Claim(ctx, "worker", time.Minute)
				return history.Seen{Refusal: refusalOf(err)}
			}
		}
		return &history.Deed{What: "write", Client: client}, func() history.Seen {
			return history.Seen{Refusal: refusalOf(fenced[client].SetInstanceStatus(ctx, status.Info{Status: status.Running}))}
		}
	}})
	history.Explain(t, model, done)
}

// TestHistoriesOfWatchers has many writers move machines through their lives, and
// watchers that read slowly. To each watcher the lives go forward, no change
// but the removal of a dead machine is missed in the end, and no machine is named
// more often than it changed.
func TestHistoriesOfWatchers(t *testing.T) {
	site := statetest.Open(t)
	watchHistories(t, history.Seed(t), site)
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

// follows reads one watcher until it is told to stop and has read everything. It
// then knows the life of each machine.
func follows(t *testing.T, st *state.State, changes <-chan []string, dice *rand.Rand, stop <-chan struct{}) {
	f := history.NewFollower(t)
	f.Begin()
	take := func(ids []string) { must(t, f.Take(ids, livesIn(st))) }
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
	now := map[string]life.Value{}
	for _, m := range all {
		now[m.Id()] = m.Life()
	}
	f.End(now)
}

// livesIn looks machines up in a model.
func livesIn(st *state.State) history.Lives {
	return func(ids []string) (map[string]life.Value, error) {
		now := map[string]life.Value{}
		for _, id := range ids {
			m, err := st.Machines().Get(ctx, id)
			switch {
			case err == nil:
				now[id] = m.Life()
			case !errors.Is(err, errors.NotFound):
				return nil, err
			}
		}
		return now, nil
	}
}
