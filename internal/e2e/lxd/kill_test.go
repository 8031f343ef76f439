//go:build e2e

package lxd_test

import (
	"strings"
	"syscall"
	"testing"
)

// rounds is how often each program is killed in each phase.
const rounds = 3

// The phases of a machine's life that programs are killed in.
var phases = map[string]func(s *site, id string){
	// Its container is there, and does not run yet.
	"creating": func(s *site, id string) {
		s.until("a container is there", func() bool { _, _, err := s.container(id); return err == nil })
	},
	// Its container runs, and its agent is about to log in.
	"booting": func(s *site, id string) {
		s.until("a container runs", func() bool { _, status, _ := s.container(id); return status == "RUNNING" })
	},
	// Its agent has logged in.
	"started": func(s *site, id string) { s.waitFor("started", id) },
	// Its removal has been asked for.
	"removing": func(s *site, id string) {
		s.waitFor("started", id)
		s.persist("remove-machine", id)
	},
}

// The programs, each with what kills it and, if need be, starts it again.
var victims = map[string]func(s *site, id string){
	"controllerd": func(s *site, _ string) {
		s.controller.end(syscall.SIGKILL)
		s.controller.begin(s.T)
	},
	"worker": func(s *site, _ string) {
		s.worker.end(syscall.SIGKILL)
		s.worker.begin(s.T)
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

// Whoever is killed, and whenever: each machine gets one container, and none is
// left when it has been removed.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	longForm(t)
	s := newSite(t)
	kills := map[string]int{}
	var all []string
	for _, c := range []struct{ victim, phase string }{
		{"controllerd", "creating"}, {"controllerd", "booting"}, {"controllerd", "removing"},
		{"worker", "creating"}, {"worker", "booting"}, {"worker", "removing"},
		{"LXD", "creating"}, {"LXD", "booting"}, {"LXD", "removing"},
		{"agent", "booting"}, {"agent", "started"}, {"agent", "removing"},
	} {
		for range rounds {
			id := s.add()
			all = append(all, id)
			phases[c.phase](s, id)
			victims[c.victim](s, id)
			kills[c.victim+" while "+c.phase]++
			if c.phase != "removing" {
				s.waitFor("started", id)
				if _, status, err := s.container(id); err != nil || status != "RUNNING" {
					t.Errorf("%s while %s: container of machine %s is %q, %v", c.victim, c.phase, id, status, err)
				}
				s.persist("remove-machine", id)
			}
			s.waitFor("gone", id)
			if left := daemon.containers(t, s.project); len(left) != 0 {
				t.Fatalf("%s while %s: containers %q are left after machine %s", c.victim, c.phase, left, id)
			}
		}
	}
	for what, n := range kills {
		t.Logf("killed %s: %d times", what, n)
		if n < rounds {
			t.Errorf("killed %s %d times, want %d", what, n, rounds)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d machines were started, want 30", len(all))
	}
	if out := s.slipway("machines"); strings.Contains(out, "slipway-") {
		t.Errorf("machines are left:\n%s", out)
	}
}
