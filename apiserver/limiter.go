package apiserver

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
)

// The limits on logins.
const (
	agentLogins  = 10          // of agents at once
	agentWait    = time.Second // that an agent waits for its turn before it is sent away
	freeFailures = 10          // of a person from one address within failureSpan, without delay
	failureSpan  = time.Minute //
	failureDelay = time.Second // between the tries of a person who fails more often
	longestDelay = 20 * time.Second
	maxFailers   = 10000 // whose failures are remembered
)

// agentGate lets a number of agents log in at once, and sends away those whose turn
// does not come soon. One that is sent away comes again with a new connection,
// which costs many times what its login does: hence the wait.
type agentGate chan struct{}

// enter takes a place, which leave gives back. It returns an error satisfying
// errors.Is(err, kind.TryAgain) if there is none.
func (g agentGate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(agentWait)
	defer timer.Stop()
	select {
	case g <- struct{}{}:
		return nil
	case <-timer.C:
		return kind.TryAgain
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	}
}

func (g agentGate) leave() { <-g }

// failer is a person at an address.
type failer struct{ addr, user string }

// failures are the failed logins of one failer.
type failures struct {
	since time.Time // of the first that counts
	count int
	next  time.Time // when the next try may be made
}

// brake slows down who fails to log in too often. People at one address try
// one after the other: so each failure counts before the next try begins, and a
// flood from there does not keep people elsewhere waiting for their passwords to
// be checked.
type brake struct {
	turns  turns
	mu     sync.Mutex
	all    map[failer]*failures
	pruned time.Time // when the old ones were last dropped
}

func newBrake() *brake {
	return &brake{all: make(map[failer]*failures), turns: turns{all: make(map[string]*turn)}}
}

// wait returns when a login may be tried: when nobody else at that address
// tries one, and later if there were too many failures before. Those who wait for
// that are let through one at a time. Leave ends the try.
func (b *brake) wait(ctx context.Context, who failer) (leave func(), err error) {
	leave, err = b.turns.enter(ctx, who.addr)
	if err != nil {
		return nil, err
	}
	d := b.delay(who, time.Now())
	if d <= 0 {
		return leave, nil
	}
	leave()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, errors.Trace(ctx.Err())
	case <-timer.C:
		return b.turns.enter(ctx, who.addr)
	}
}

// delay returns how long a try has to wait, and takes that place.
func (b *brake) delay(who failer, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.all[who]
	if f == nil {
		return 0
	}
	if now.Sub(f.since) > failureSpan && now.After(f.next) {
		delete(b.all, who)
		return 0
	}
	if f.count < freeFailures {
		return 0
	}
	f.next = f.next.Add(failureDelay)
	if earliest := now.Add(failureDelay); f.next.Before(earliest) {
		f.next = earliest
	}
	return min(f.next.Sub(now), longestDelay)
}

// failed notes a failure. It reports whether it is the one from which on the
// person is delayed, so that it is logged once.
func (b *brake) failed(who failer, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.all[who]
	if f == nil || now.Sub(f.since) > failureSpan && f.count < freeFailures {
		b.makeRoom(now)
		f = &failures{since: now}
		b.all[who] = f
	}
	f.count++
	if f.count > freeFailures {
		f.since = now // goes on for as long as they do
	}
	return f.count == freeFailures
}

// makeRoom drops what no longer counts, and anything if that is not enough.
func (b *brake) makeRoom(now time.Time) {
	if len(b.all) < maxFailers {
		return
	}
	if now.Sub(b.pruned) > failureSpan {
		b.pruned = now
		for who, f := range b.all {
			if now.Sub(f.since) > failureSpan {
				delete(b.all, who)
			}
		}
	}
	for who := range b.all {
		if len(b.all) < maxFailers {
			return
		}
		delete(b.all, who)
	}
}

// passed forgets the failures of who has logged in.
func (b *brake) passed(who failer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, who)
}

// turns lets those at one address do something one at a time.
type turns struct {
	mu  sync.Mutex
	all map[string]*turn // by address, while anybody there has a turn or wants one
}

// turn is whose turn it is at one address.
type turn struct {
	taken  chan struct{} // holds a value while somebody has it
	wanted int           // by how many, with who has it
}

// enter waits for a turn, which leave ends. It returns ctx's error if that is done
// first.
func (t *turns) enter(ctx context.Context, addr string) (leave func(), err error) {
	t.mu.Lock()
	at := t.all[addr]
	if at == nil {
		at = &turn{taken: make(chan struct{}, 1)}
		t.all[addr] = at
	}
	at.wanted++
	t.mu.Unlock()
	select {
	case at.taken <- struct{}{}:
		return func() { <-at.taken; t.unwanted(addr, at) }, nil
	case <-ctx.Done():
		t.unwanted(addr, at)
		return nil, errors.Trace(ctx.Err())
	}
}

// unwanted notes that one fewer wants a turn.
func (t *turns) unwanted(addr string, at *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.wanted--; at.wanted == 0 {
		delete(t.all, addr)
	}
}
