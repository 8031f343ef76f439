//go:build e2e

package lxd_test

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// rounds is how often each program is killed in each phase.
const rounds = 3

// The phases of a machine's life that programs are killed in. Each waits until the
// machine is there, and reports whether it was not too late.
var phases = map[string]func(s *site, id string) bool{
	// Its container is there, and has never run.
	"creating": func(s *site, id string) bool {
		var status string
		s.until("a container is there", func() bool {
			var err error
			_, status, err = s.container(id)
			return err == nil
		})
		return status == rest.Stopped
	},
	// Its container runs, and its agent is about to log in.
	"booting": func(s *site, id string) bool {
		s.until("a container runs", func() bool { _, status, _ := s.container(id); return status == rest.Running })
		return true
	},
	// Its agent has logged in.
	"started": func(s *site, id string) bool { s.waitFor("started", id); return true },
	// Its removal has been asked for, and its container is still there.
	"removing": func(s *site, id string) bool {
		s.waitFor("started", id)
		s.persist("remove-machine", id)
		_, _, err := s.container(id)
		return err == nil
	},
}

// The programs, each with what kills it and, if need be, starts it again.
var victims = map[string]func(s *site, id string){
	"controllerd": func(s *site, _ string) {
		s.controller.Kill()
		s.controller.Start()
	},
	"worker": func(s *site, _ string) {
		s.worker.Kill()
		s.worker.Start()
	},
	"agent": func(s *site, id string) {
		// It may not have been started yet, or have ended: its init sees to it.
		_, _ = s.exec(id, "/bin/killall", "-9", "provisionerd")
	},
	"LXD": func(s *site, _ string) {
		daemon.kill(syscall.SIGKILL)
		if err := daemon.start(); err != nil {
			s.Fatal(err)
		}
	},
}

// kills are all that is killed, in this order and over and over: what is killed
// twice at short notice is waited for longer each time.
var kills = []struct{ victim, phase string }{
	{"controllerd", "creating"}, {"agent", "booting"}, {"worker", "creating"}, {"LXD", "creating"},
	{"controllerd", "booting"}, {"agent", "started"}, {"worker", "booting"}, {"LXD", "booting"},
	{"controllerd", "removing"}, {"agent", "removing"}, {"worker", "removing"}, {"LXD", "removing"},
}

// It is the last to use the shared daemon: the tests beside it have their own.
//
// Whoever is killed, and whenever: each machine gets one container, and none is
// left when it has been removed.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	s := newReadySite(t)
	counts := map[string]int{}
	var all, unsettled []string
	for round := 0; round < rounds || round < 5*rounds && slices.Min(slices.Collect(maps.Values(counts))) < rounds; round++ {
		for _, k := range kills {
			what := k.victim + " while " + k.phase
			if counts[what] == rounds {
				continue // this round is for those that came too late for their phase
			}
			began := time.Now()
			id := s.add()
			inTime := phases[k.phase](s, id)
			reached := time.Since(began)
			victims[k.victim](s, id)
			counts[what] += 0 // it is there even if it never was in time
			if inTime {
				counts[what]++
			}
			killed := time.Since(began)
			// The machine before has come through a kill of its own, and maybe this.
			s.settle(unsettled...)
			all, unsettled = append(all, id), nil
			if k.phase != "removing" {
				unsettled = []string{id}
			}
			t.Logf("machine %s: killed %s, in time %v (reached after %.1fs, killed %.1fs, settled %.1fs)", id, what, inTime,
				reached.Seconds(), killed.Seconds(), time.Since(began).Seconds())
		}
	}
	s.settle(unsettled...)
	s.waitFor("gone", all...)
	for _, k := range kills {
		what := k.victim + " while " + k.phase
		t.Logf("killed %s: %d times", what, counts[what])
		if counts[what] < rounds {
			t.Errorf("killed %s %d times, want %d", what, counts[what], rounds)
		}
	}
	if left := daemon.containers(t, s.project); len(left) != 0 {
		t.Errorf("containers %q are left", left)
	}
	if out := s.slipway("machines"); strings.Contains(out, "slipway-") {
		t.Errorf("machines are left:\n%s", out)
	}
	if len(all) < 30 {
		t.Errorf("%d machines were started, want 30", len(all))
	}
}

// settle sees that machines have started, each with one container, and has them
// removed.
func (s *site) settle(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.waitFor("started", id)
		if _, status, err := s.container(id); err != nil || status != rest.Running {
			s.Errorf("the container of machine %s is %q, %v", id, status, err)
		}
		s.persist("remove-machine", id)
	}
}
