package provisioner

import (
	"context"
	"time"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
)

// standings are how instances stand that take long to come to be, by id. They are
// used by the task's loop only; nil means that the provider's take no time.
type standings map[instance.ID]environs.Instance

// of returns how a machine's instance stands. A host may have been another
// machine's before.
func (s standings) of(m *machine) (environs.Instance, bool) {
	i, ok := s[m.instance]
	return i, ok && m.instance != "" && i.Owner.MachineID == m.id
}

// follow has the provider tell how instances stand, again and again if it fails.
func (t *task) follow(f environs.Follower) {
	t.standings = standings{}
	rest := t.settings.rest
	t.tomb.Go(func() error {
		ctx := t.tomb.Context(nil)
		for failures := 1; ; failures++ {
			err := f.Follow(ctx, func(found []environs.Instance) {
				failures = 0
				select {
				case t.events <- func() { t.told(found) }:
				case <-t.tomb.Dying():
				}
			})
			if ctx.Err() != nil {
				return nil
			}
			logger.Warningf("cannot follow the instances of model %s, trying again: %v", t.cfg.owner.ModelUUID, err)
			if !pause(ctx, rest.Delay(max(failures, 1))) {
				return nil
			}
		}
	})
}

// pause waits, and reports whether it was not cut short.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// told takes in how instances stand.
func (t *task) told(found []environs.Instance) {
	for _, i := range found {
		m, ok := t.machines[i.Owner.MachineID]
		t.standings[i.ID] = i
		if ok {
			t.show(m)
		}
	}
}

// begun shows how the instance stands that has just been recorded for a machine.
func (t *task) begun(m *machine, i environs.Instance) {
	if t.standings == nil {
		t.reporter.report(m.id, status.Running, "", nil)
		return
	}
	if _, ok := t.standings.of(m); !ok {
		t.standings[i.ID] = i
	}
	t.show(m)
}

// show has a machine's status say how its instance stands, unless it says so.
func (t *task) show(m *machine) {
	i, ok := t.standings.of(m)
	if !ok || m.phase != idle || m.over() {
		return
	}
	if text := string(i.Status) + " " + i.Message; m.standing != text {
		m.standing = text
		t.reporter.report(m.id, i.Status, i.Message, nil)
	}
}
