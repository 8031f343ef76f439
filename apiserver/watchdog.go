package apiserver

import (
	"time"

	"github.com/slipway-project/slipway/apiserver/pinger"
)

// watchdog calls a function when no ping has come for some time. It is the
// resource that pings go to.
type watchdog struct {
	timer   *time.Timer
	timeout time.Duration
}

var _ pinger.Pinged = (*watchdog)(nil)

// newWatchdog returns a watchdog that calls bark, once, after timeout without a
// ping. Bark must not wait for the connection to end.
func newWatchdog(timeout time.Duration, bark func()) *watchdog {
	return &watchdog{time.AfterFunc(timeout, bark), timeout}
}

// Ping implements pinger.Pinged.
func (w *watchdog) Ping() {
	if w.timer.Stop() { // otherwise it has barked, or been killed
		w.timer.Reset(w.timeout)
	}
}

// Kill implements common.Resource.
func (w *watchdog) Kill() { w.timer.Stop() }

// Wait implements common.Resource.
func (w *watchdog) Wait() error { return nil }
