package provisioner

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
)

// listTimeout bounds one call that lists the provider's instances.
const listTimeout = 2 * time.Minute

// inventory is what the provider has of this model's at one time: the
// instances that carry the mark of each machine.
type inventory map[string][]environs.Instance

// list takes an inventory. What does not carry this model's mark is left out:
// nothing is ever done about it.
func (t *task) list(ctx context.Context) (inventory, error) {
	all, err := t.cfg.broker.AllInstances(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	found := make(inventory, len(all))
	for _, i := range all {
		if i.Owner.SameModel(t.cfg.owner) && i.Owner.MachineID != "" {
			found[i.Owner.MachineID] = append(found[i.Owner.MachineID], i)
		}
	}
	return found, nil
}

// lister asks the provider for its instances: one call at a time, shared by all
// who asked before it began. It is used by the task's loop only.
type lister struct {
	list    func(ctx context.Context) (inventory, error)
	spawn   func(work func(ctx context.Context) func())
	always  func(inventory) // called with each inventory, after those who asked for it
	waiting []func(inventory, error)
	busy    bool
}

// ask has then called, in the loop, with an inventory that is taken from now
// on.
func (l *lister) ask(then func(inventory, error)) {
	l.waiting = append(l.waiting, then)
}

// flush begins a call if somebody waits for one and none is under way.
func (l *lister) flush() {
	if l.busy || len(l.waiting) == 0 {
		return
	}
	asked := l.waiting
	l.waiting = nil
	l.busy = true
	l.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		found, err := l.list(ctx)
		return func() {
			l.busy = false
			for _, then := range asked {
				then(found, err)
			}
			if err == nil {
				l.always(found)
			}
		}
	})
}
