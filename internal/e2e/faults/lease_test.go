//go:build e2e

package faults_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// delay returns a distribution that is always the same time.
func delay(t testing.TB, d time.Duration) simulated.Distribution {
	t.Helper()
	fixed, err := simulated.ParseDistribution("fixed " + d.String())
	if err != nil {
		t.Fatal(err)
	}
	return fixed
}

// holds reports how often a worker has got the lease.
func holds(w *harness.Process) int { return strings.Count(w.Printed(), "is held, epoch") }

// active returns the worker that has the lease, and the other one.
func (s *site) active() (has, other *harness.Process) {
	s.t.Helper()
	harness.Eventually(s.t, "a worker has the lease", func() bool { return holds(s.workers[0])+holds(s.workers[1]) > 0 })
	if holds(s.workers[0]) > 0 {
		return s.workers[0], s.workers[1]
	}
	return s.workers[1], s.workers[0]
}

func TestAnotherWorkerTakesOver(t *testing.T) {
	s := newSite(t, siteConfig{workers: 2})
	ids := s.add(3)
	s.started(ids...)
	has, other := s.active()
	for range soak(1) {
		before := holds(other)
		has.Kill()
		killed := time.Now()
		more := s.add(1)
		s.started(more...)
		took := time.Since(killed)
		t.Logf("another worker took over and started a machine %.1f s after the death of the first", took.Seconds())
		if took > 30*time.Second { // three times what is promised: these tests also run beside other work
			t.Errorf("it took %v until a machine was started, want 10 s", took)
		}
		harness.Eventually(t, "the heir says that it has the lease", func() bool { return holds(other) > before })
		if holds(other) != before+1 {
			t.Errorf("the lease was taken %d times by the heir, want once", holds(other)-before)
		}
		since := len(has.Printed())
		has.Start()
		has.Says("waiting until the worker that has it is gone", since)
		ids = append(ids, more...)
		s.settled(ids...)
		has, other = other, has
	}
}

// TestPausedWorkersChangeNothing holds a worker up at several moments of a start
// until another has done its work, and removed a machine, and lets it go on.
func TestPausedWorkersChangeNothing(t *testing.T) {
	const lease = 2 * time.Second
	s := newSite(t, siteConfig{workers: 2, lease: lease, behaviour: simulated.Behaviour{
		Delays: map[simulated.Call]simulated.Distribution{simulated.CallStart: delay(t, 500*time.Millisecond)},
	}})
	dice := dice(t)
	s.started(s.add(1)...)
	living := []string{"0"}
	for range soak(4) {
		has, other := s.workers[0], s.workers[1]
		if strings.LastIndex(has.Printed(), "is held, epoch") < strings.LastIndex(has.Printed(), "waiting until") || holds(has) == 0 {
			has, other = other, has
		}
		since, mine := len(other.Printed()), len(has.Printed())
		ids := s.add(3)
		at := time.Duration(dice.IntN(700)) * time.Millisecond
		<-time.After(at)
		has.Signal(syscall.SIGSTOP)
		other.Says("is held, epoch", since)
		s.started(ids...)
		s.remove(false, ids[0])
		s.gone(ids[0])
		has.Signal(syscall.SIGCONT)
		has.Says("waiting until the worker that has it is gone", mine)
		living = append(living, ids[1:]...)
		t.Logf("paused %v after the machines were asked for", at)
		s.settled(living...)
	}
}
