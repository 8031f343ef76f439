//go:build e2e

package faults_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// everyCall is a behaviour in which each kind of call fails at a rate.
func everyCall(seed uint64, rate float64) simulated.Behaviour {
	b := simulated.Behaviour{Seed: seed, Faults: map[simulated.Call]map[simulated.FaultKind]float64{}}
	for _, c := range []simulated.Call{simulated.CallStart, simulated.CallStop, simulated.CallList} {
		b.Faults[c] = map[simulated.FaultKind]float64{simulated.FaultTransient: rate}
	}
	return b
}

// TestManyMachinesWithFaults starts and removes many machines while one call in
// twenty fails.
func TestManyMachinesWithFaults(t *testing.T) {
	n := soak(1000)
	dice := dice(t)
	s := newSite(t, siteConfig{behaviour: everyCall(dice.Uint64(), 0.05)})
	began := time.Now()
	ids := s.add(n)
	s.settled(ids...)
	t.Logf("%d machines started after %.1f s", n, time.Since(began).Seconds())
	dice.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	began = time.Now()
	s.remove(false, ids[n/4:]...)
	s.settled(ids[:n/4]...)
	t.Logf("%d of them were gone after %.1f s", n-n/4, time.Since(began).Seconds())
}

// TestChaos adds and removes machines, has calls fail in all ways, and kills and
// pauses processes, all at the same time. In the end each machine is where the
// seed wants it.
func TestChaos(t *testing.T) {
	dice := dice(t)
	b := everyCall(dice.Uint64(), 0.03)
	for _, c := range []simulated.Call{simulated.CallStart, simulated.CallStop} {
		b.Faults[c][simulated.FaultAnswerLost] = 0.05
		b.Faults[c][simulated.FaultBusy] = 0.05
	}
	b.Delays = map[simulated.Call]simulated.Distribution{
		simulated.CallStart: delay(t, 100*time.Millisecond), simulated.CallStop: delay(t, 100*time.Millisecond),
		simulated.CallBoot: delay(t, 100*time.Millisecond),
	}
	s := newSite(t, siteConfig{workers: 2, lease: 2 * time.Second, behaviour: b})
	var living []string
	for range soak(15) {
		living = append(living, s.add(1+dice.IntN(6))...)
		dice.Shuffle(len(living), func(i, j int) { living[i], living[j] = living[j], living[i] })
		doomed := living[:dice.IntN(len(living)/2+1)]
		living = slices.Clone(living[len(doomed):])
		if len(doomed) > 0 {
			s.remove(dice.IntN(3) == 0, doomed...)
		}
		<-time.After(time.Duration(dice.IntN(300)) * time.Millisecond)
		s.disturb(dice)
	}
	s.behave(simulated.Behaviour{})
	s.settled(living...)
	t.Logf("%d machines live", len(living))
	s.remove(false, living...)
	s.settled()
}

// TestContainersUnderFaults kills every process while containers come and go, some
// of them in containers, and ends a host by force.
func TestContainersUnderFaults(t *testing.T) {
	dice := dice(t)
	b := everyCall(dice.Uint64(), 0.05)
	b.Delays = map[simulated.Call]simulated.Distribution{
		simulated.CallStart: delay(t, 100*time.Millisecond), simulated.CallStop: delay(t, 100*time.Millisecond),
	}
	s := newSite(t, siteConfig{behaviour: b, lease: 2 * time.Second})
	hosts := s.add(3)
	living := slices.Clone(hosts)
	for range soak(2) {
		for _, p := range []*harness.Process{s.controller, s.workers[0], s.rack} {
			var fresh []string
			for _, host := range hosts {
				fresh = append(fresh, s.addInside(host, 2)...)
			}
			fresh = append(fresh, s.addInside(fresh[0], 1)...)
			<-time.After(time.Duration(dice.IntN(1500)) * time.Millisecond)
			p.Kill()
			if p == s.workers[0] {
				p.Start()
			} else {
				p.Serve()
			}
			living = append(living, fresh...)
			doomed := fresh[2 : 2+dice.IntN(len(fresh)-3)] // not those that the inner one is in
			s.remove(dice.IntN(2) == 0, doomed...)
			living = slices.DeleteFunc(living, func(id string) bool { return slices.Contains(doomed, id) })
		}
	}
	s.settled(living...)
	t.Logf("%d machines and containers live", len(living))
	s.remove(true, hosts[0])
	s.settled(slices.DeleteFunc(living, func(id string) bool {
		return id == hosts[0] || strings.HasPrefix(id, hosts[0]+"/")
	})...)
}

// disturb does something bad to one process.
func (s *site) disturb(dice *rand.Rand) {
	s.t.Helper()
	all := append([]*harness.Process{s.controller, s.rack}, s.workers...)
	p := all[dice.IntN(len(all))]
	if dice.IntN(3) == 0 {
		p.Pause(time.Duration(dice.IntN(3000)) * time.Millisecond)
		return
	}
	p.Kill()
	<-time.After(time.Duration(dice.IntN(500)) * time.Millisecond)
	if p == s.controller || p == s.rack {
		p.Serve()
	} else {
		p.Start()
	}
}

// TestAddsAndRemovesAtOnce has many clients add machines, and all of them remove
// the same ones.
func TestAddsAndRemovesAtOnce(t *testing.T) {
	const clients = 100
	s := newSite(t, siteConfig{})
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			added := s.add(1)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, added...)
		})
	}
	wg.Wait()
	if slices.Sort(ids); len(slices.Compact(ids)) != clients {
		t.Fatalf("%d clients have got %d machines", clients, len(ids))
	}
	doomed, living := ids[:clients/2], ids[clients/2:]
	for i := range clients {
		wg.Go(func() {
			// Somebody else may have been faster, which is an error for those that
			// come when nothing is left.
			_ = s.client().DestroyMachines(t.Context(), i%5 == 0, doomed...)
		})
	}
	wg.Wait()
	s.settled(living...)
}
