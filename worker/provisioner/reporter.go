package provisioner

import (
	"context"
	"time"

	"github.com/juju/errors"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/status"
)

// reporter sets the statuses of instances: one call at a time, each with
// whatever gathered while the one before was under way. Of several statuses for
// one machine only the newest is sent, and never an older one after a newer.
// It is used by the task's loop only.
type reporter struct {
	send    func(ctx context.Context, set ...apiprovisioner.NewStatus) ([]error, error)
	spawn   func(work func(ctx context.Context) func()) // runs work outside the loop, and what it returns inside
	waiting map[string]apiprovisioner.NewStatus
	busy    bool
}

// reportTimeout bounds one call that sets statuses.
const reportTimeout = time.Minute

// report has a status set soon.
func (r *reporter) report(id string, s status.Status, message string, data map[string]any) {
	r.waiting[id] = apiprovisioner.NewStatus{ID: id, Status: s, Message: message, Data: data}
	r.flush()
}

// forget drops a status that has not been sent yet.
func (r *reporter) forget(id string) { delete(r.waiting, id) }

// flush sends what is waiting, unless a call is under way.
func (r *reporter) flush() {
	if r.busy || len(r.waiting) == 0 {
		return
	}
	batch := make([]apiprovisioner.NewStatus, 0, min(len(r.waiting), bulk))
	for id, s := range r.waiting {
		batch = append(batch, s)
		delete(r.waiting, id)
		if len(batch) == bulk {
			break
		}
	}
	r.busy = true
	r.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		errs, err := r.send(ctx, batch...)
		return func() { r.sent(batch, errs, err) }
	})
}

// sent notes what became of a call. A status that could not be set is lost,
// unless it is the reason why a machine is in error: that one is sent again.
func (r *reporter) sent(batch []apiprovisioner.NewStatus, errs []error, err error) {
	r.busy = false
	for i, s := range batch {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		if failure == nil || errors.Is(failure, errors.NotFound) {
			continue
		}
		logger.Warningf("cannot set instance status %q of machine %s: %v", s.Status, s.ID, failure)
		if _, newer := r.waiting[s.ID]; !newer && err != nil && s.Status == status.ProvisioningError {
			r.waiting[s.ID] = s
		}
	}
	if err == nil {
		r.flush()
	}
}
