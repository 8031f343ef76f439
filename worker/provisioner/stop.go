package provisioner

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
)

// stopTimeout bounds one call that stops instances.
const stopTimeout = 2 * time.Minute

// stopTogether is how many machines' instances one call stops at the most. One
// that failed is tried again by itself, so that it holds up no other.
const stopTogether = 50

// ended is something to be stopped: what belongs to a machine, or strays.
type ended struct {
	m   *machine // nil for strays
	ids []instance.ID
}

// end sees a dead machine out: whatever carries its mark is stopped, then its
// record is removed.
func (t *task) end(m *machine) {
	t.giveUp(m)
	if m.busy() {
		return // whatever is under way comes back here when it ends
	}
	m.enter(ending)
	if !t.settings.harvest.Destroyed() {
		if m.instance != "" {
			logger.Warningf("instance %s of dead machine %s is left running, since provisioner-harvest-mode is %s", m.instance, m.id, t.settings.harvest)
		}
		t.kept[m.id] = struct{}{}
		t.removals = append(t.removals, m)
		return
	}
	t.lister.ask(func(found inventory, err error) { t.endChecked(m, found[m.id], err) })
}

// endChecked stops what a dead machine has left.
func (t *task) endChecked(m *machine, left []environs.Instance, err error) {
	if err != nil {
		t.endLater(m, "cannot list the provider's instances", err)
		return
	}
	ids := instanceIDs(left)
	if m.instance != "" && !slices.Contains(ids, m.instance) {
		ids = append(ids, m.instance) // one that is not listed yet, or no more
	}
	if len(ids) == 0 {
		if !m.clear {
			t.chase(m.id) // an earlier worker may have asked for one
		}
		t.removals = append(t.removals, m)
		return
	}
	t.stops = append(t.stops, ended{m: m, ids: ids})
}

// endLater tries to see a dead machine out again after a pause.
func (t *task) endLater(m *machine, what string, err error) {
	t.rest(m, resting, what, err, func() {
		m.enter(idle)
		t.decide(m)
	})
}

// stopEnded begins to stop what is to be stopped.
func (t *task) stopEnded() {
	var together, alone []ended
	for _, e := range t.stops {
		if e.m != nil && e.m.failures == 0 {
			together = append(together, e)
		} else {
			alone = append(alone, e)
		}
	}
	t.stops = nil
	for part := range slices.Chunk(together, stopTogether) {
		t.stop(part)
	}
	for i := range alone {
		t.stop(alone[i : i+1])
	}
}

// stop has the provider stop instances, in one call.
func (t *task) stop(batch []ended) {
	var ids []instance.ID
	for _, e := range batch {
		ids = append(ids, e.ids...)
	}
	t.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		errs, err := t.cfg.broker.StopInstances(ctx, ids)
		return func() { t.stopped(batch, errs, err) }
	})
}

// stopped goes on when the provider has answered.
func (t *task) stopped(batch []ended, errs []error, err error) {
	n := 0
	for _, e := range batch {
		failure := err
		for range e.ids {
			if failure == nil && errs[n] != nil {
				failure = errs[n]
			}
			n++
		}
		switch {
		case e.m == nil && failure != nil:
			logger.Warningf("cannot stop stray instances %v, trying again: %v", e.ids, failure)
			t.later(t.settings.rest.Max, t.survey)
		case e.m == nil:
			logger.Infof("stopped stray instances %v", e.ids)
		case failure != nil:
			t.stopFailed(e.m, failure)
		case e.m.phase == clearing:
			e.m.clear = true
			e.m.enter(idle)
			t.decide(e.m)
		default:
			e.m.failures = 0
			t.removals = append(t.removals, e.m)
		}
	}
}

// stopFailed tries again, after a pause, to stop a machine's instances.
func (t *task) stopFailed(m *machine, err error) {
	if m.phase == ending {
		t.endLater(m, "cannot stop the instance", err)
		return
	}
	t.rest(m, resting, "cannot stop what an earlier attempt left", err, func() {
		m.enter(idle)
		t.again(m)
	})
}

// remove begins to remove the records of machines that have been seen out.
func (t *task) remove() {
	if len(t.removals) == 0 {
		return
	}
	var batch []*machine
	for _, m := range t.removals {
		if m.gone {
			delete(t.machines, m.id)
			continue
		}
		batch = append(batch, m)
	}
	t.removals = nil
	for part := range slices.Chunk(batch, bulk) {
		t.spawn(func(ctx context.Context) func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			t.release(ctx, idsOf(part))
			errs, err := t.cfg.api.Remove(ctx, idsOf(part)...)
			return func() { t.removed(part, errs, err) }
		})
	}
}

// removed forgets the machines whose records are gone.
func (t *task) removed(batch []*machine, errs []error, err error) {
	for i, m := range batch {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		if failure != nil && !errors.Is(failure, errors.NotFound) {
			t.endLater(m, "cannot remove the machine", failure)
			continue
		}
		t.reporter.forget(m.id)
		m.enter(idle)
		delete(t.machines, m.id)
		if i, ok := t.standings.of(m); ok {
			delete(t.standings, i.ID)
		}
	}
}

// stray looks through an inventory for instances that carry this model's mark
// and should not be: beside the one that is recorded for their machine, or of a
// machine that is not there. The latter are stopped in the harvest modes that
// say so, and only after the controller has said that there is no such machine.
func (t *task) stray(found inventory) {
	if !t.settings.harvest.Destroyed() && !t.settings.harvest.Unknown() {
		return
	}
	var unknown []string
	for id, instances := range found {
		m, ok := t.machines[id]
		if !ok {
			unknown = append(unknown, id)
			continue
		}
		if m.phase != idle || m.instance == "" || m.over() {
			continue
		}
		for _, i := range instances {
			if i.ID != m.instance {
				logger.Warningf("machine %s has instance %s recorded: stopping its other instance %s", id, m.instance, i.ID)
				t.stops = append(t.stops, ended{ids: []instance.ID{i.ID}})
			}
		}
	}
	if !t.settings.harvest.Unknown() {
		unknown = slices.DeleteFunc(unknown, func(id string) bool { _, late := t.broken[id]; return !late })
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		t.stopUnknown(found, unknown)
	}
}

// A request that a provider has taken in may bring forth an instance after the start
// was given up, and even after the machine was seen out. For chaseFor after that, the
// provider is asked each chaseInterval.
const (
	chaseInterval = 10 * time.Second
	chaseFor      = 2 * time.Minute
)

// chase has what comes too late of a machine's start stopped by stray.
func (t *task) chase(id string) {
	t.broken[id] = time.Now()
	t.chaseOn()
}

// chaseOn arranges the next look for instances that come too late.
func (t *task) chaseOn() {
	if t.chasing {
		return
	}
	t.chasing = true
	t.later(chaseInterval, func() {
		t.chasing = false
		for id, since := range t.broken {
			if time.Since(since) > chaseFor {
				delete(t.broken, id)
			}
		}
		if len(t.broken) > 0 {
			t.survey()
			t.chaseOn()
		}
	})
}

// stopUnknown stops the instances of machines that the controller does not
// know.
func (t *task) stopUnknown(found inventory, ids []string) {
	for part := range slices.Chunk(ids, bulk) {
		t.spawn(func(ctx context.Context) func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			lives, err := t.cfg.api.Life(ctx, part...)
			return func() {
				if err != nil {
					logger.Warningf("cannot ask about machines of unknown instances: %v", err)
					return
				}
				for i, id := range part {
					_, kept := t.kept[id] // machine of what is not unknown
					if errors.Is(lives[i].Err, errors.NotFound) && (!kept || t.settings.harvest.Destroyed()) {
						logger.Warningf("stopping instances %v of machine %s, which does not exist", instanceIDs(found[id]), id)
						t.stops = append(t.stops, ended{ids: instanceIDs(found[id])})
					}
				}
			}
		})
	}
}

// instanceIDs returns the ids of instances.
func instanceIDs(instances []environs.Instance) []instance.ID {
	ids := make([]instance.ID, len(instances))
	for i, inst := range instances {
		ids[i] = inst.ID
	}
	return ids
}
