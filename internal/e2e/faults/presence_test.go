//go:build e2e

package faults_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// show waits until machines have a status, and returns how long that took.
func (s *site) show(want, message string, ids ...string) time.Duration {
	s.t.Helper()
	start := time.Now()
	harness.Eventually(s.t, fmt.Sprintf("machines %v are shown as %s", ids, want), func() bool {
		all := s.status()
		for _, id := range ids {
			if a := all[id].AgentStatus; a.Status != want || a.Info != message {
				return false
			}
		}
		return all != nil
	})
	return time.Since(start)
}

// TestSilentAgentsAreShownAsDown holds up the process of all agents, so that their
// connections stay open and nothing comes over them, and then ends it.
func TestSilentAgentsAreShownAsDown(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, siteConfig{})
	ids := s.add(2)
	s.started(ids...)
	slow := simulated.Behaviour{Delays: map[simulated.Call]simulated.Distribution{simulated.CallBoot: delay(t, time.Hour)}}
	s.behave(slow)
	pending := s.add(1)
	harness.Eventually(t, "machine 2 has an instance", func() bool { return len(s.instances()[pending[0]]) == 1 })
	down := func(how string) {
		took := s.show("down", "agent is not communicating with the server", ids...)
		t.Logf("%s agents were shown as down after %.1f s", how, took.Seconds())
		if took > time.Minute { // twice what is promised: these tests also run beside other work
			t.Errorf("%s agents were shown as down after %v, want 30 s", how, took)
		}
		s.show("pending", "", pending...)
	}
	s.rack.Signal(syscall.SIGSTOP)
	down("silent")
	s.rack.Signal(syscall.SIGCONT)
	took := s.show("started", "", ids...)
	t.Logf("they were back after %.1f s", took.Seconds())
	s.behave(simulated.Behaviour{})
	s.rack.Kill()
	down("dead")
	s.rack.Serve()
	s.settled(append(ids, pending...)...)
	if _, err := s.client().FullStatus(context.Background()); err != nil {
		t.Error(err)
	}
}
