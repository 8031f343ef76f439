// The brake, the watchdog and the presence are not exported, and are tested here
// with a clock of their own.
package apiserver

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
)

func TestBrakeDelaysWhoFailsTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bob, elsewhere := newBrake(), failer{"192.0.2.1", "bob"}, failer{"192.0.2.2", "bob"}
		try := func(who failer) time.Duration {
			start := time.Now()
			leave, err := b.wait(t.Context(), who)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			return time.Since(start)
		}
		told := 0
		for range freeFailures {
			if d := try(bob); d != 0 {
				t.Errorf("a try within the free ones waits %v", d)
			}
			if b.failed(bob, time.Now()) {
				told++
			}
		}
		for range 3 {
			if d := try(bob); d != failureDelay {
				t.Errorf("a try after too many failures waits %v, want %v", d, failureDelay)
			}
			if b.failed(bob, time.Now()) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("it would be logged %d times, want once", told)
		}
		if d := try(elsewhere); d != 0 {
			t.Errorf("the same person elsewhere waits %v", d)
		}
		// Tries at once wait for one another, up to a limit.
		var last time.Duration
		for range 100 {
			last = b.delay(bob, time.Now())
		}
		if last != longestDelay {
			t.Errorf("the hundredth try waits %v, want %v", last, longestDelay)
		}
		time.Sleep(10 * failureSpan)
		if d := try(bob); d != 0 {
			t.Errorf("long after the last failure a try waits %v", d)
		}
	})
}

func TestBrakeForgetsWhoGetsIn(t *testing.T) {
	b, bob := newBrake(), failer{"192.0.2.1", "bob"}
	for range 2 * freeFailures {
		b.failed(bob, time.Now())
	}
	b.passed(bob)
	if d := b.delay(bob, time.Now()); d != 0 {
		t.Errorf("after a login a try waits %v", d)
	}
}

func TestBrakeEndsWithTheConnection(t *testing.T) {
	b, bob := newBrake(), failer{"192.0.2.1", "bob"}
	for range freeFailures {
		b.failed(bob, time.Now())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.wait(ctx, bob); err == nil {
		t.Error("a try waits on although its connection is gone")
	}
}

// TestBrakeCountsTriesThatBeginTogether: a hundred guesses that are sent at once
// are no better than a hundred in a row.
func TestBrakeCountsTriesThatBeginTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bob, began := newBrake(), failer{"192.0.2.1", "bob"}, time.Now()
		const check = time.Millisecond // how long it takes to find a password wrong
		var tried, inParallel atomic.Int32
		for range 100 {
			go func() {
				leave, err := b.wait(t.Context(), bob)
				if err != nil {
					return // at the end of the test
				}
				defer leave()
				if inParallel.Add(1) > 1 {
					t.Error("two at one address try together")
				}
				time.Sleep(check)
				b.failed(bob, time.Now())
				tried.Add(1)
				inParallel.Add(-1)
			}()
		}
		time.Sleep(failureDelay / 2)
		synctest.Wait()
		if got := tried.Load(); got != freeFailures {
			t.Errorf("%d tries after %v, want %d", got, time.Since(began), freeFailures)
		}
		if leave, err := b.wait(t.Context(), failer{"192.0.2.2", "bob"}); err != nil {
			t.Error(err)
		} else if leave(); time.Since(began) != failureDelay/2 {
			t.Error("somebody at another address has to wait")
		}
		time.Sleep(2 * longestDelay)
		synctest.Wait()
		if got := tried.Load(); got != 100 || len(b.turns.all) != 0 {
			t.Errorf("%d tries in the end, want all; %d turns are remembered, want none", got, len(b.turns.all))
		}
	})
}

func TestBrakeIsBounded(t *testing.T) {
	b := newBrake()
	for i := range 2 * maxFailers {
		b.failed(failer{"192.0.2.1", fmt.Sprint(i)}, time.Now())
	}
	if len(b.all) > maxFailers {
		t.Errorf("%d failers are remembered, want at most %d", len(b.all), maxFailers)
	}
}

func TestWatchdogBarksWithoutPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, barked := time.Now(), make(chan time.Duration, 2)
		w := newWatchdog(3*time.Minute, func() { barked <- time.Since(start) })
		for range 10 {
			time.Sleep(2 * time.Minute)
			w.Ping()
		}
		if got, want := <-barked, 23*time.Minute; got != want {
			t.Errorf("barked after %v, want %v", got, want)
		}
		w.Ping() // does not wake it again
		time.Sleep(time.Hour)
		if len(barked) != 0 {
			t.Error("barked twice")
		}
		killed := newWatchdog(time.Minute, func() { t.Error("barked although killed") })
		killed.Kill()
		killed.Ping()
		time.Sleep(time.Hour)
	})
}

// Cases: server/Presence
func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := newPresence(time.Now()), tag.NewMachineTag("0")
		w := p.WatchAgents("a")
		event := func(want ...string) {
			t.Helper()
			select {
			case got := <-w.Changes():
				if !slices.Equal(got, want) {
					t.Errorf("event = %q, want %q", got, want)
				}
			default:
				t.Errorf("no event, want %q", want)
			}
		}
		event()
		if !p.AgentAlive("a", m) {
			t.Error("an agent is missed right after the start")
		}
		early := tag.NewMachineTag("7")
		p.enter(agentKey{"a", early}).Kill()
		event("7")
		time.Sleep(graceTime + time.Second)
		event("7")
		if p.AgentAlive("a", early) {
			t.Error("an agent that came and went right after the start is not missed")
		}
		time.Sleep(settleTime)
		synctest.Wait()
		event(common.AnyAgent)
		if p.AgentAlive("a", m) || !p.AgentLeft("a", m).IsZero() {
			t.Error("an agent that never came is not missed")
		}
		first, second := p.enter(agentKey{"a", m}), p.enter(agentKey{"a", m})
		event("0")
		first.Kill()
		first.Kill()
		if !p.AgentAlive("a", m) || p.AgentAlive("b", m) {
			t.Error("want the agent there while it has a connection, in its own model alone")
		}
		second.Kill()
		time.Sleep(graceTime - time.Second)
		third := p.enter(agentKey{"a", m}) // it came back in time
		time.Sleep(time.Hour)
		if !p.AgentAlive("a", m) || len(w.Changes()) != 0 {
			t.Error("an agent that came back at once was missed")
		}
		third.Kill()
		left := time.Now()
		time.Sleep(graceTime + time.Second)
		if got := p.AgentLeft("a", m); !got.Equal(left) {
			t.Errorf("the agent left at %v, want %v", got, left)
		}
		if p.AgentAlive("a", m) || len(p.agents) != 0 {
			t.Error("an agent whose connections are gone is there")
		}
		event("0")
		p.enter(agentKey{"a", m})
		p.enter(agentKey{"a", tag.NewMachineTag("1")})
		p.enter(agentKey{"b", m})
		event("0", "1") // what nobody has read is one event
		w.Kill()
		w.Kill()
		if _, ok := <-w.Changes(); ok || len(p.watchers) != 0 {
			t.Error("the watcher goes on after Kill")
		}
		p.close()
	})
}

func TestAgentsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := make(agentGate, 1)
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(agentWait/2, g.leave)
		start := time.Now()
		if err := g.enter(t.Context()); err != nil || time.Since(start) != agentWait/2 {
			t.Errorf("enter = %v after %v, want a place as soon as there is one", err, time.Since(start))
		}
		start = time.Now()
		if err := g.enter(t.Context()); !errors.Is(err, kind.TryAgain) || time.Since(start) != agentWait {
			t.Errorf("enter = %v after %v, want to be sent away after %v", err, time.Since(start), agentWait)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("enter = %v when the connection has ended", err)
		}
	})
}
