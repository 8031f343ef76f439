package hostmanager

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// actor looks after one host: it alone works on the host, pass after pass.
type actor struct {
	m       *Manager
	id      string
	ctx     context.Context // ends when the host is gone or the manager dies
	cancel  context.CancelFunc
	factory provisioner.Factory
	poke    chan struct{} // a new record, or a place in the queue
	force   chan struct{} // closed when the host is to be removed by force
	done    chan struct{} // closed when the actor has ended

	mu       sync.Mutex
	incoming *Record
	forced   bool

	// What follows belongs to the goroutine.
	record   Record
	saved    string    // what the store has, as text
	intent   time.Time // until when the last intent noted lasts
	doubt    time.Time // until when a call that got no answer may still do something
	quick    int       // passes in a row without a wait
	pending  Update    // what has not been saved yet
	lost     error     // another manager has taken over
	forsaken bool      // removed by force, with a call still under way
}

// offer hands the actor a new record.
func (a *actor) offer(r Record) {
	a.mu.Lock()
	a.incoming = &r
	if r.Force && r.Host.Deleting() && !a.forced {
		a.forced = true
		close(a.force)
	}
	a.mu.Unlock()
	a.wake()
}

// wake has the actor make a pass soon.
func (a *actor) wake() {
	select {
	case a.poke <- struct{}{}:
	default: // it will anyway
	}
}

// take adopts what is new in the record. What the manager itself knows of the host
// is newer here than in any record.
func (a *actor) take() {
	select {
	case <-a.poke: // before the record is taken: a newer one wakes us again
	default:
	}
	a.mu.Lock()
	in := a.incoming
	a.incoming = nil
	a.mu.Unlock()
	if in == nil {
		return
	}
	if a.record.Host == nil {
		a.record = *in
		a.record.Host = in.Host.Copy()
		a.saved = a.text()
		return
	}
	status, progress, retries := a.record.Host.Status, a.record.Progress, a.record.Retries
	a.record = *in
	a.record.Host = in.Host.Copy()
	a.record.Host.Status, a.record.Progress = status, progress
	if in.Retries != retries {
		a.record.Host.Status.ProvisioningFailCount = 0
	}
}

// text returns what is saved of the host, for comparison.
func (a *actor) text() string {
	status := a.record.Host.Status
	status.LastUpdated = nil
	data, err := json.Marshal(struct {
		S metal3v1alpha1.BareMetalHostStatus
		P Progress
	}{status, a.record.Progress})
	if err != nil {
		return err.Error() // cannot be: it is plain data
	}
	return string(data)
}

// run works on the host until it is gone or the manager dies.
func (a *actor) run() error {
	defer a.cancel()
	defer a.m.queue.leave(a.id)
	defer a.withdraw()
	for {
		a.take()
		if a.record.Host == nil {
			if !a.sleep(0, false) {
				return nil
			}
			continue // the first record is on its way
		}
		o, ok := a.pass()
		if !ok || o.kind == failed || o.kind == faulted {
			a.doubt = a.intent // a call may have been broken off
		}
		if !ok {
			return nil
		}
		if o.kind == removed {
			return a.remove()
		}
		delay, again := o.delay(a.record.Host.Status.ErrorCount, a.record.Progress.Faults, a.quick, a.m.config.Random())
		if a.record.Force {
			delay = min(delay, forceInterval)
		}
		if delay > 0 {
			a.quick = 0
		} else {
			a.quick++
		}
		if o.kind == failed || o.kind == faulted {
			a.record.Progress.NextTry = time.Now().Add(delay)
		}
		if err := a.save(); err != nil {
			return a.ended(err)
		}
		if !a.sleep(delay, again) {
			return nil
		}
	}
}

// forceInterval is the longest wait between two tries to remove a host by force.
const forceInterval = 5 * time.Second

// sleep waits until the next pass is due, and reports whether there is one.
func (a *actor) sleep(d time.Duration, again bool) bool {
	if again && d <= 0 {
		return a.ctx.Err() == nil
	}
	var due <-chan time.Time
	if again {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-a.ctx.Done():
		return false
	case <-due:
	case <-a.poke:
	}
	return true
}

// pass makes one pass. ok is false if the actor is to end. A host that is removed by
// force does not wait for a call that hangs.
func (a *actor) pass() (o outcome, ok bool) {
	p := &pass{
		record: &a.record, host: a.record.Host, factory: a.factory, now: time.Now(), intend: a.intend,
		enter:      func() (int, bool) { return a.m.queue.enter(a.id) },
		leave:      func() { a.m.queue.leave(a.id) },
		checkReady: a.record.Progress.Faults > 0,
	}
	done := make(chan outcome, 1)
	a.m.tomb.Go(func() error {
		done <- p.run()
		return nil
	})
	select {
	case o = <-done:
	case <-a.force:
		timer := time.NewTimer(forceLimit)
		defer timer.Stop()
		select {
		case o = <-done:
		case <-timer.C: // the record belongs to the pass, which ends with our context
			a.forsaken = true
			return outcome{kind: removed}, true
		}
	}
	a.pending.Events = append(a.pending.Events, p.events...)
	a.pending.ClearAnnotations = append(a.pending.ClearAnnotations, p.cleared...)
	return o, a.lost == nil && a.ctx.Err() == nil
}

// intend notes that the host may be acted on, for as long as a call can take. What
// was noted before counts while enough of it is left.
func (a *actor) intend() error {
	need := a.m.config.CallLimit
	if time.Until(a.intent) >= need {
		return nil
	}
	until := time.Now().Add(2 * need)
	err := a.m.config.Store.Intend(a.ctx, a.id, until)
	if errors.Is(err, ErrNotOwner) {
		a.lost = err
		a.m.tomb.Kill(err)
	}
	if err != nil {
		return errors.Annotate(err, "cannot note the intent to act on the host")
	}
	a.intent = until
	return nil
}

// withdrawLimit is how long the end of a manager waits for withdrawn intents.
const withdrawLimit = 2 * time.Second

// withdraw takes back what is left of the intent when the manager was asked to end,
// so that the next one need not wait. It stays if a call was broken off, which the
// machine may still act on.
func (a *actor) withdraw() {
	until := time.Now()
	if a.doubt.After(until) {
		until = a.doubt
	}
	if a.m.tomb.Err() != nil || a.forsaken || !a.intent.After(until) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), withdrawLimit)
	defer cancel()
	if err := a.m.config.Store.Intend(ctx, a.id, until); err != nil {
		logger.Infof("host %s: the next host manager has to wait until %s: %v", a.id, a.intent.Format(time.RFC3339), err)
	}
}

// save saves what changed, and does not give up.
func (a *actor) save() error {
	text := a.text()
	if text == a.saved && len(a.pending.Events) == 0 && len(a.pending.ClearAnnotations) == 0 {
		return nil
	}
	now := time.Now()
	a.record.Host.Status.LastUpdated = &now
	a.pending.Status, a.pending.Progress = a.record.Host.Status, a.record.Progress
	update := a.pending
	update.Status = a.record.Host.Copy().Status // the store may keep it
	err := a.insist(func() error { return a.m.config.Store.Save(a.ctx, a.id, update) })
	if err == nil {
		a.saved, a.pending = text, Update{}
	}
	return errors.Trace(err)
}

// remove removes the record of a host that was let go.
func (a *actor) remove() error {
	events := a.pending.Events
	if a.forsaken {
		events = []Event{{Reason: "RemovedWithoutBackend", Message: "The host was removed by force while its back end did not answer, which may still know it", Time: time.Now()}}
	}
	return a.ended(a.insist(func() error { return a.m.config.Store.Remove(a.ctx, a.id, events) }))
}

// insist calls f until it works, is of no use any more, or the actor is to end.
func (a *actor) insist(f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if err == nil || a.ctx.Err() != nil || errors.Is(err, errors.NotFound) || errors.Is(err, ErrNotOwner) {
			return err
		}
		logger.Warningf("host %s: cannot save what became of it, trying again: %v", a.id, err)
		d, _ := outcome{kind: faulted}.delay(0, n, 0, a.m.config.Random())
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-a.ctx.Done():
			timer.Stop()
			return a.ctx.Err()
		}
	}
}

// ended turns what insist returned into how the actor ends.
func (a *actor) ended(err error) error {
	if errors.Is(err, ErrNotOwner) {
		return errors.Trace(err)
	}
	return nil // the host is gone, or the manager dies
}
