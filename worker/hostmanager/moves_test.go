package hostmanager

// In the package, because the table of states and the outcomes are its own.

import (
	"math/rand/v2"
	"testing"
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

func TestTheTableOfStatesIsWhole(t *testing.T) {
	seen := make(map[metal3v1alpha1.ProvisioningState]bool)
	for _, s := range states() {
		if seen[s.name] || s.handle == nil || s.onDelete == "" {
			t.Errorf("row %q is doubled, or lacks a handler or the way to removal", s.name)
		}
		seen[s.name] = true
		if (s.limit > 0) != (s.reason != "") {
			t.Errorf("row %q: a state of work has a limit and a reason, one of rest neither", s.name)
		}
		if s.failure == "" && !s.unregistered {
			t.Errorf("row %q has no type of error", s.name)
		}
	}
	for _, s := range states() {
		for _, to := range append(s.next, s.onDelete) {
			if !seen[to] || !CanMove(s.name, to) {
				t.Errorf("%q leads to %q, which it cannot", s.name, to)
			}
		}
	}
	if CanMove(metal3v1alpha1.StateProvisioned, metal3v1alpha1.StateReady) || CanMove("moon", "moon") {
		t.Error("a move that is not in the table is allowed")
	}
}

func TestEveryStateLeadsToRemoval(t *testing.T) {
	for _, s := range states() {
		at := s
		for range 3 {
			if at.name == metal3v1alpha1.StateDeleting {
				break
			}
			next := at.onDelete
			if next == at.name { // its own handler goes on
				next = metal3v1alpha1.StateDeleting
			}
			if !CanMove(at.name, next) {
				t.Fatalf("no way from %q to %q", at.name, next)
			}
			at, _ = lookUp(next)
		}
		if at.name != metal3v1alpha1.StateDeleting {
			t.Errorf("removal in %q ends in %q", s.name, at.name)
		}
	}
}

func TestBackOff(t *testing.T) {
	for n := 1; n < 30; n++ {
		longest := time.Minute << min(n, 9)
		for range 100 {
			if d := backOff(n, rand.Float64()); d <= longest/2 || d > longest {
				t.Fatalf("after %d failures %v, want more than %v and at most %v", n, d, longest/2, longest)
			}
		}
	}
	if d := backOff(0, 0); d != 2*time.Minute {
		t.Errorf("backOff(0) = %v", d)
	}
}

func TestDelays(t *testing.T) {
	for name, c := range map[string]struct {
		o                       outcome
		failures, faults, quick int
		want                    time.Duration
		again                   bool
	}{
		"advanced":     {advanceTo("x"), 5, 0, 0, 0, true},
		"waiting":      {waitFor(7*time.Second, ""), 5, 0, 0, 7 * time.Second, true},
		"waiting less": {waitFor(-time.Second, ""), 0, 0, 0, 0, true},
		"in a loop":    {waitFor(0, ""), 0, 0, 100, 100 * time.Millisecond, true},
		"queued":       {outcome{kind: queued}, 0, 0, 0, 5 * time.Second, true},
		"resting":      {outcome{kind: resting}, 0, 0, 0, time.Minute, true},
		"parked":       {outcome{kind: parked}, 0, 0, 0, 0, false},
		"removed":      {outcome{kind: removed}, 0, 0, 0, 0, false},
		"failed":       {failure("", ""), 3, 0, 0, 8 * time.Minute, true},
		"first fault":  {outcome{kind: faulted}, 9, 1, 0, time.Second, true},
		"fourth fault": {outcome{kind: faulted}, 0, 4, 0, 8 * time.Second, true},
		"many faults":  {outcome{kind: faulted}, 0, 99, 0, 5 * time.Minute, true},
	} {
		if d, again := c.o.delay(c.failures, c.faults, c.quick, 0); d != c.want || again != c.again {
			t.Errorf("%s: %v, %v; want %v, %v", name, d, again, c.want, c.again)
		}
	}
}

func TestQueueIsFair(t *testing.T) {
	var woken []string
	q := newQueue(1, func(id string) { woken = append(woken, id) })
	if _, ok := q.enter("a"); !ok {
		t.Fatal("an empty queue refuses")
	}
	for i, id := range []string{"b", "c", "b"} {
		if place, ok := q.enter(id); ok || place != []int{1, 2, 1}[i] {
			t.Errorf("%s: place %d, %v", id, place, ok)
		}
	}
	q.leave("a")
	if len(woken) != 1 || woken[0] != "b" {
		t.Errorf("woken %v, want b", woken)
	}
	if place, ok := q.enter("c"); ok || place != 2 {
		t.Errorf("c jumped the queue: place %d, %v", place, ok)
	}
	q.leave("b") // it went away without using its place
	if _, ok := q.enter("c"); !ok {
		t.Error("c does not get the place")
	}
}
