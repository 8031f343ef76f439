package state

import (
	"time"

	"github.com/slipway-project/slipway/watcher"
)

// retryWatcher says that somebody asked for another try of a machine.
type retryWatcher struct {
	notifyWatcher
	latest time.Time // requests up to here are known, or older than the watcher
}

// WatchRetries returns a watcher that fires, after its first event, when
// another try of a top-level machine is asked for; see Machine.MergeStatusData.
func (ms *Machines) WatchRetries() watcher.NotifyWatcher {
	w := &retryWatcher{latest: ms.st.c.now()}
	w.out = make(chan struct{}, 1)
	if w.subscribe(ms.st.c.hub, w, func() { close(w.out) }, machinesTopic(ms.st.modelUUID, "")) == nil {
		w.notify()
	}
	return w
}

func (w *retryWatcher) needs() bool { return true }

func (w *retryWatcher) deliver(e *event) {
	w.mu.Lock()
	asked := e.retry.After(w.latest)
	if asked {
		w.latest = e.retry
	}
	w.mu.Unlock()
	if asked {
		w.notify()
	}
}
