package state

import (
	"time"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// retryWatcher says that somebody asked for another try of a machine.
type retryWatcher struct {
	notifyWatcher
	asked map[store.Key]time.Time // the request that is known of each machine; clocks are not compared
}

// WatchRetries returns a watcher that fires, after its first event, when
// another try of a top-level machine is asked for; see Machine.MergeStatusData. It
// may fire once too often for a request from before its start.
func (ms *Machines) WatchRetries() watcher.NotifyWatcher { return ms.st.watchRetries("") }

// WatchContainerRetries is Machines.WatchRetries for the machine's direct containers.
// The machine's removal does not end the watcher.
func (m *Machine) WatchContainerRetries() watcher.NotifyWatcher { return m.st.watchRetries(m.id) }

// watchRetries watches the direct containers of parent, or the top-level machines.
func (st *State) watchRetries(parent string) watcher.NotifyWatcher {
	w := &retryWatcher{asked: map[store.Key]time.Time{}}
	w.out = make(chan struct{}, 1)
	if w.subscribe(st.c.hub, w, events[struct{}](w.out), machinesTopic(st.modelUUID, parent)) == nil {
		w.notify()
	}
	return w
}

func (w *retryWatcher) needs() bool { return true }

func (w *retryWatcher) deliver(events []*event) {
	w.mu.Lock()
	fire := false
	for _, e := range events {
		switch {
		case e.removed:
			delete(w.asked, e.key)
		case !e.retry.IsZero() && !e.retry.Equal(w.asked[e.key]):
			w.asked[e.key] = e.retry
			fire = true
		}
	}
	w.mu.Unlock()
	if fire {
		w.notify()
	}
}
