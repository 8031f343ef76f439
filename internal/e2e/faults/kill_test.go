//go:build e2e

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/params"
)

// group is how many machines go through a phase at once.
const group = 3

// phase is a moment in the life of machines. Reach brings some machines there and
// holds them there, and says how many are; afterwards thaw lets everything go on.
type phase struct {
	name  string
	reach func(k *kills) (here int)
}

// kills is a run of kills on one site.
type kills struct {
	*site
	living    []string          // that should live in the end
	instances map[string]string // of machines that were settled, by machine
	frozen    []*harness.Process
	pace      time.Duration // factor of the times in which a phase has to be caught; at least 1
}

// phases are in the order of a machine's life.
var phases = []phase{
	{"asked", func(k *kills) int {
		k.freeze(k.workers...)
		ids := k.want(group)
		return k.reached("are asked for", ids, func(m params.MachineStatus, here int) bool {
			return m.InstanceStatus.Status == "pending" && here == 0
		})
	}},
	{"claimed", func(k *kills) int {
		k.delay(simulated.CallStart, time.Second)
		ids := k.want(group)
		return k.reached("are being started", ids, func(m params.MachineStatus, here int) bool {
			return m.InstanceStatus.Status == "allocating" && m.InstanceID == "pending"
		})
	}},
	{"started", func(k *kills) int {
		k.delay(simulated.CallStart, 500*time.Millisecond)
		ids := k.want(group)
		k.reached("are being started", ids, func(m params.MachineStatus, here int) bool {
			return m.InstanceStatus.Info == "waiting for the rack"
		})
		<-time.After(k.pace * 200 * time.Millisecond) // until the rack has been asked
		k.freeze(k.workers...)
		return k.reached("have started and are not recorded", ids, func(m params.MachineStatus, here int) bool {
			return here == 1 && m.InstanceID == "pending"
		})
	}},
	{"recorded", func(k *kills) int {
		k.delay(simulated.CallBoot, 2*time.Second)
		ids := k.want(group)
		return k.reached("are recorded", ids, func(m params.MachineStatus, here int) bool {
			return here == 1 && m.InstanceID != "pending" && m.AgentStatus.Status == "pending"
		})
	}},
	{"agent logged in", func(k *kills) int {
		ids := k.want(group)
		return k.reached("have agents", ids, func(m params.MachineStatus, here int) bool {
			return m.AgentStatus.Status == "started"
		})
	}},
	{"dying", func(k *kills) int {
		ids := k.unwanted(group)
		k.freeze(k.rack)
		k.remove(false, ids...)
		return k.reached("are dying", ids, func(m params.MachineStatus, _ int) bool {
			return m.AgentStatus.Life == "dying"
		})
	}},
	{"dead", func(k *kills) int {
		ids := k.unwanted(group)
		k.freeze(k.workers...)
		k.remove(false, ids...)
		return k.reached("are dead", ids, func(m params.MachineStatus, here int) bool {
			return m.AgentStatus.Life == "dead" && here == 1
		})
	}},
	{"removing", func(k *kills) int {
		k.delay(simulated.CallStop, 700*time.Millisecond)
		ids := k.unwanted(group)
		k.remove(false, ids...)
		k.reached("are dead", ids, func(m params.MachineStatus, here int) bool {
			return m.AgentStatus.Life == "dead"
		})
		<-time.After(k.pace * 200 * time.Millisecond) // until the rack has been asked
		k.freeze(k.workers...)
		return k.reached("have no instance any more", ids, func(m params.MachineStatus, here int) bool {
			return m.AgentStatus.Life == "dead" && here == 0
		})
	}},
}

// delay has one kind of call take some time, and all others none.
func (k *kills) delay(call simulated.Call, d time.Duration) {
	k.behave(simulated.Behaviour{Delays: map[simulated.Call]simulated.Distribution{call: delay(k.t, k.pace*d)}})
}

// want adds machines that are to live.
func (k *kills) want(n int) []string {
	ids := k.add(n)
	k.living = append(k.living, ids...)
	return ids
}

// unwanted returns machines that have started, and are not to live any more.
func (k *kills) unwanted(n int) []string {
	for len(k.living) < n {
		k.want(n)
	}
	ids := slices.Clone(k.living[:n])
	k.living = k.living[n:]
	k.started(ids...)
	return ids
}

// freeze holds processes up.
func (k *kills) freeze(all ...*harness.Process) {
	for _, p := range all {
		p.Signal(syscall.SIGSTOP)
		k.frozen = append(k.frozen, p)
	}
}

// thaw lets all that is frozen go on, but for one process.
func (k *kills) thaw(dead *harness.Process) {
	for _, p := range k.frozen {
		if p != dead {
			p.Signal(syscall.SIGCONT)
		}
	}
	k.frozen = nil
}

// bring has some machines reach a phase, and returns how many have. A busy machine
// may miss it: then all is made slower, and others are sent there.
func (k *kills) bring(p phase) int {
	k.t.Helper()
	for k.pace = 1; ; k.pace *= 2 {
		k.behave(simulated.Behaviour{})
		if here := p.reach(k); here > 0 {
			return here
		}
		if k.pace == 16 {
			k.t.Fatalf("no machine was seen to be %s, however slow the rack", p.name)
		}
		k.t.Logf("no machine was seen to be %s: trying again with a slower rack", p.name)
		k.thaw(nil)
		k.behave(simulated.Behaviour{})
		k.check()
	}
}

// reached waits until all of the machines are somewhere, but not for long, and
// returns how many are, 0 if none was in time. Here is how many instances a machine
// has.
func (k *kills) reached(what string, ids []string, there func(m params.MachineStatus, here int) bool) int {
	k.t.Helper()
	deadline := time.Now().Add(k.pace * 5 * time.Second)
	for {
		all := k.status()
		rack := map[string]int{}
		if !slices.Contains(k.frozen, k.rack) {
			for id, instances := range k.site.instances() {
				rack[id] = len(instances)
			}
		}
		n := 0
		for _, id := range ids {
			if m, ok := all[id]; ok && there(m, rack[id]) {
				n++
			}
		}
		if n == len(ids) || time.Now().After(deadline) {
			if n == 0 {
				k.t.Logf("machines %v: none of them %s: %+v", ids, what, all[ids[0]])
			}
			return n
		}
		<-time.After(2 * time.Millisecond)
	}
}

// holder returns the worker that has the lease.
func (k *kills) holder() *harness.Process {
	for _, w := range k.workers {
		said := w.Printed()
		if i := strings.LastIndex(said, "is held, epoch"); i >= 0 && i > strings.LastIndex(said, "waiting until the worker") {
			return w
		}
	}
	return k.workers[0]
}

// check waits until all is as it should be, and looks whether the machines that were
// there before have kept their instances.
func (k *kills) check() {
	k.t.Helper()
	k.settled(k.living...)
	all := k.status()
	for _, id := range k.living {
		now := all[id].InstanceID
		if before, ok := k.instances[id]; ok && before != now {
			k.t.Errorf("machine %s has instance %s, and had %s", id, now, before)
		}
		k.instances[id] = now
	}
}

// TestKilledAtEveryPhase kills the controller, the active worker and the rack while
// machines are at each phase of their lives.
func TestKilledAtEveryPhase(t *testing.T) {
	k := &kills{site: newSite(t, siteConfig{workers: 2, lease: 2 * time.Second}), instances: map[string]string{}}
	targets := []string{"controller", "worker", "rack"}
	hits, machines := map[string]int{}, map[string]int{}
	for range soak(1) {
		for _, p := range phases {
			for _, target := range targets {
				machines[p.name] += k.bring(p)
				victim := map[string]*harness.Process{"controller": k.controller, "worker": k.holder(), "rack": k.rack}[target]
				victim.Kill()
				hits[p.name]++
				k.thaw(victim)
				if victim.Name() == "controller" || victim.Name() == "rack" {
					victim.Serve()
				} else {
					victim.Start()
				}
				k.behave(simulated.Behaviour{})
				began := time.Now()
				k.check()
				t.Logf("%s killed while machines were %s: all well after %.1f s", target, p.name, time.Since(began).Seconds())
			}
		}
	}
	k.remove(false, k.living...) // for which all agents have to be there again
	k.settled()
	for _, p := range phases {
		t.Logf("%s", fmt.Sprintf("%-16s %2d kills, %2d machines there", p.name, hits[p.name], machines[p.name]))
		if hits[p.name] < 3 || machines[p.name] < 3 {
			t.Errorf("phase %s was hit %d times, with %d machines, want 3", p.name, hits[p.name], machines[p.name])
		}
	}
}
