package provisioner

import (
	"context"
	"slices"

	"github.com/juju/errors"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
)

// record is what the controller says of a machine.
type record struct {
	id       string
	life     life.Value
	gone     bool // it has been removed
	hidden   bool // it may not be seen
	instance instance.ID
	status   status.Status
	err      error // why nothing is known
}

// read begins to read the machines that changed, one bulk at a time, so that a
// later answer never comes before an earlier one.
func (t *task) read() {
	if t.reading || len(t.unread) == 0 {
		return
	}
	ids := make([]string, 0, min(len(t.unread), bulk))
	for id := range t.unread {
		ids = append(ids, id)
		delete(t.unread, id)
		if len(ids) == bulk {
			break
		}
	}
	slices.Sort(ids)
	t.reading = true
	t.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		records, err := fetch(ctx, t.cfg.api, ids)
		return func() {
			t.reading = false
			if err != nil {
				t.fatal = errors.Annotate(err, "cannot read machines")
				return
			}
			t.readAll(records)
		}
	})
}

// fetch reads machines: three calls, however many they are.
func fetch(ctx context.Context, from reading, ids []string) ([]record, error) {
	lives, err := from.Life(ctx, ids...)
	if err != nil {
		return nil, errors.Trace(err)
	}
	instances, err := from.InstanceID(ctx, ids...)
	if err != nil {
		return nil, errors.Trace(err)
	}
	statuses, err := from.Status(ctx, ids...)
	if err != nil {
		return nil, errors.Trace(err)
	}
	records := make([]record, len(ids))
	for i, id := range ids {
		r := record{id: id, life: lives[i].Value, instance: instances[i].Value, status: statuses[i].Value.Status}
		for _, err := range []error{lives[i].Err, instances[i].Err, statuses[i].Err} {
			switch {
			case err == nil || errors.Is(err, errors.NotProvisioned):
			case errors.Is(err, errors.NotFound):
				r.gone = true
			case errors.Is(err, errors.Unauthorized):
				r.hidden = true
			case r.err == nil:
				r.err = err
			}
		}
		records[i] = r
	}
	return records, nil
}

// readAll takes in what was read, and decides what to do about each machine.
func (t *task) readAll(records []record) {
	for _, r := range records {
		m, known := t.machines[r.id]
		switch {
		case r.gone && known:
			m.gone = true
			t.decide(m)
		case r.gone:
		case r.hidden:
			// Not ours to judge: whatever is under way ends by itself.
			if known && !m.busy() {
				m.enter(idle)
				delete(t.machines, r.id)
				t.suspect[r.id] = struct{}{}
			}
		case r.err != nil:
			logger.Warningf("cannot read machine %s, trying again: %v", r.id, r.err)
			t.later(t.settings.rest.Delay(2), func() { t.unread[r.id] = struct{}{} })
		default:
			if !known {
				// A machine that was not there when this worker began is
				// nobody's unfinished work.
				_, suspect := t.suspect[r.id]
				m = &machine{id: r.id, clear: !suspect}
				t.machines[r.id] = m
			}
			m.life, m.instance, m.pending = r.life, r.instance, r.status == status.Pending
			t.decide(m)
			t.show(m)
		}
	}
}

// decide has done about a machine what its life, instance and status ask for.
func (t *task) decide(m *machine) {
	switch {
	case m.over():
		t.end(m)
	case m.life == life.Dying && m.instance == "":
		// No agent of its own will see it out.
		t.giveUp(m)
		if !m.busy() {
			m.enter(ending)
			t.dying = append(t.dying, m)
		}
	case m.wanted():
		t.want(m)
	case !m.busy():
		m.enter(idle)
	}
}

// again has a machine read again, and decided upon.
func (t *task) again(m *machine) { t.unread[m.id] = struct{}{} }

// retry puts the machines that somebody wants tried again back to pending, and
// has them read again.
func (t *task) retry() {
	t.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		ids, err := t.resetTransient(ctx)
		return func() {
			if err != nil {
				logger.Warningf("cannot retry machines with transient errors, trying again: %v", err)
				t.later(t.settings.rest.Delay(3), t.retry)
				return
			}
			for _, id := range ids {
				if m, ok := t.machines[id]; ok {
					m.failures = 0
				}
				t.reporter.report(id, status.Pending, "to be tried again", nil)
				t.unread[id] = struct{}{}
			}
		}
	})
}

// resetTransient sets the status of living machines with transient errors to
// pending, and returns their ids. A host's agent is also told of its own machine, which
// somebody else cares for.
func (t *task) resetTransient(ctx context.Context) ([]string, error) {
	found, err := t.cfg.api.MachinesWithTransientErrors(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var set []apiprovisioner.NewStatus
	for _, f := range found {
		if f.Life == life.Alive && t.cfg.ours(f.ID) {
			set = append(set, apiprovisioner.NewStatus{ID: f.ID, Status: status.Pending})
		}
	}
	if len(set) == 0 {
		return nil, nil
	}
	errs, err := t.cfg.api.SetStatus(ctx, set...)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var ids []string
	for i, err := range errs {
		if err != nil {
			logger.Warningf("cannot set machine %s to pending: %v", set[i].ID, err)
			continue
		}
		ids = append(ids, set[i].ID)
	}
	return ids, nil
}

// ensureDead makes dying machines without an instance dead.
func (t *task) ensureDead() {
	if len(t.dying) == 0 {
		return
	}
	batch := t.dying
	t.dying = nil
	for part := range slices.Chunk(batch, bulk) {
		t.spawn(func(ctx context.Context) func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			errs, err := t.cfg.api.EnsureDead(ctx, idsOf(part)...)
			return func() { t.ensuredDead(part, errs, err) }
		})
	}
}

// ensuredDead goes on with machines that are dead now, and has the others tried
// again: a machine cannot die while something still depends on it.
func (t *task) ensuredDead(batch []*machine, errs []error, err error) {
	for i, m := range batch {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		switch {
		case failure == nil:
			m.life = life.Dead
			m.failures = 0
			m.enter(idle)
			t.decide(m)
		case errors.Is(failure, errors.NotFound):
			m.gone = true
			m.enter(idle)
			t.decide(m)
		default:
			t.rest(m, resting, "cannot end the machine yet", failure, func() {
				m.enter(idle)
				t.again(m)
			})
		}
	}
}

// idsOf returns the ids of machines.
func idsOf(machines []*machine) []string {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = m.id
	}
	return ids
}
