package provisioner

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// MachinesWithTransientErrors returns status data for machines with provisioning
// errors which are transient.
func (p *ProvisionerAPI) MachinesWithTransientErrors() (params.StatusResults, error) {
	failed, err := p.backend.Failed(p.ctx())
	if err != nil {
		return params.StatusResults{}, errors.Trace(err)
	}
	can, err := p.can()
	if err != nil {
		return params.StatusResults{}, errors.Trace(err)
	}
	var results []params.StatusResult // null if there are none
	for _, m := range failed {
		if !can(machineTag(m.Id())) {
			continue
		}
		r := common.StatusResult(m.Status())
		r.ID, r.Life, r.Since = m.Id(), string(m.Life()), nil
		results = append(results, r)
	}
	return params.StatusResults{Results: results}, nil
}

// WatchMachineErrorRetry returns a NotifyWatcher that notifies when the
// provisioner should retry provisioning machines with transient errors: every
// ErrorRetryWaitDelay, and at once when somebody has asked for a retry.
func (p *ProvisionerAPI) WatchMachineErrorRetry() (params.NotifyWatchResult, error) {
	if !p.authorizer.AuthModelManager() {
		return params.NotifyWatchResult{}, common.ErrPerm
	}
	requests, err := p.backend.WatchRetries(p.ctx())
	if err != nil {
		return params.NotifyWatchResult{}, errors.Trace(err)
	}
	if _, err := common.Next(p.ctx(), requests, requests.Changes()); err != nil {
		requests.Kill()
		return params.NotifyWatchResult{}, errors.Trace(err)
	}
	return common.RegisterNotify(p.ctx(), p.resources, newRetryWatcher(ErrorRetryWaitDelay, requests))
}

// retryWatcher says when to try again: after each delay, and when it is asked
// for. Events that nobody has read are one.
type retryWatcher struct {
	tomb     tomb.Tomb
	delay    time.Duration
	requests watcher.NotifyWatcher // its first event has been read
	out      chan struct{}
}

var _ watcher.NotifyWatcher = (*retryWatcher)(nil)

// newRetryWatcher takes charge of requests.
func newRetryWatcher(delay time.Duration, requests watcher.NotifyWatcher) *retryWatcher {
	w := &retryWatcher{delay: delay, requests: requests, out: make(chan struct{})}
	w.tomb.Go(w.loop)
	return w
}

func (w *retryWatcher) loop() error {
	defer close(w.out)
	defer w.requests.Kill()
	out := w.out // the first event is due at once
	tick := time.NewTicker(w.delay)
	defer tick.Stop()
	for {
		select {
		case <-w.tomb.Dying():
			return tomb.ErrDying
		case out <- struct{}{}:
			out = nil
		case <-tick.C:
			out = w.out
		case _, ok := <-w.requests.Changes():
			if !ok {
				return w.ended()
			}
			out = w.out
		}
	}
}

// ended returns why there are no more requests.
func (w *retryWatcher) ended() error {
	if err := w.requests.Wait(); err != nil {
		return errors.Trace(err)
	}
	return context.Canceled // stopped from outside, with what it belongs to
}

// Changes implements watcher.NotifyWatcher.
func (w *retryWatcher) Changes() <-chan struct{} { return w.out }

// Kill implements watcher.Watcher.
func (w *retryWatcher) Kill() { w.tomb.Kill(nil) }

// Wait implements watcher.Watcher.
func (w *retryWatcher) Wait() error { return w.tomb.Wait() }
