package memnet

import (
	"sync"
	"time"
)

// deadline is when a read or a write ends at the latest. Those who wait look at it
// anew when past is closed.
type deadline struct {
	mu    sync.Mutex
	at    time.Time // zero means none
	timer *time.Timer
	past  chan struct{} // closed when the time has come
}

func newDeadline() *deadline { return &deadline{past: make(chan struct{})} }

// passed returns what is closed when the time has come.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !time.Now().Before(d.at) {
		d.ring()
	}
	return d.past
}

// ring ends the timer, and returns when past is closed. The caller holds mu.
func (d *deadline) ring() {
	if d.timer.Stop() {
		close(d.past)
	}
	<-d.past // where the timer's function has begun, it closes it
	d.timer = nil
}

// set changes the deadline; zero means none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.ring()
	}
	select {
	case <-d.past:
		d.past = make(chan struct{})
	default:
	}
	d.at = t
	past := d.past
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(past)
	default:
		d.timer = time.AfterFunc(left, func() { close(past) })
	}
}
