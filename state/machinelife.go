package state

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// Destroy makes the machine dying, if it is not already. It returns an error
// satisfying kind.HasContainers or ErrRequired when the machine may not end. A machine
// removed meanwhile is a success.
func (m *Machine) Destroy(ctx context.Context) error {
	return m.advance(ctx, life.Dying)
}

// EnsureDead makes the machine dead, if it is not already. It errs as Destroy
// does.
func (m *Machine) EnsureDead(ctx context.Context) error {
	return m.advance(ctx, life.Dead)
}

func (m *Machine) advance(ctx context.Context, to life.Value) error {
	err := m.update(ctx, func(d *machineDoc) error {
		return advanceDoc(m.id, d, to)
	})
	switch {
	case errors.Is(err, errors.NotFound):
		return nil
	case errors.Is(err, kind.Contention):
		return errors.Annotatef(err, "machine %s cannot advance lifecycle", m.id)
	}
	return err
}

// advanceDoc moves d's life forward to to. The order of the checks is part of
// what callers rely on: containers come before everything else.
func advanceDoc(id string, d *machineDoc, to life.Value) error {
	if len(d.Containers) > 0 {
		return hostingError(id, d.Containers)
	}
	if !d.Life.Before(to) {
		return errNoChange
	}
	if d.isManager() {
		return typedf(ErrRequired, "machine %s is required by the model", id)
	}
	d.Life = to
	return nil
}

// errNoChange tells update that the document is as it should be.
const errNoChange = errors.ConstError("no change")

// update applies a change to the machine's document: change gets a shallow copy
// of what is stored, and may be called again. It returns an error satisfying
// errors.NotFound if the machine has been removed.
func (m *Machine) update(ctx context.Context, change func(*machineDoc) error) error {
	err := m.run(ctx, func(int) ([]store.Op, error) {
		fresh, err := m.st.machine(ctx, m.id)
		if err != nil {
			return nil, err
		}
		d := *fresh.doc
		if err := change(&d); err != nil {
			return nil, err
		}
		op, err := m.st.machineOp(m.id, fresh.rev, &d)
		return []store.Op{op}, err
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// Remove removes a dead machine with everything that belongs to it; its id is
// never used again. It returns an error satisfying ErrNotDead for another life,
// and kind.HasContainers if it got a container after its death. A machine
// that is gone already is a success.
func (m *Machine) Remove(ctx context.Context) error {
	return m.run(ctx, func(int) ([]store.Op, error) {
		return m.removeOps(ctx, false)
	})
}

// removeOps returns the batch that removes the machine; none if it is gone.
// With force the machine need not be dead.
func (m *Machine) removeOps(ctx context.Context, force bool) ([]store.Op, error) {
	st, parent := m.st, tag.Parent(m.id)
	keys := []store.Key{ // first what goes with the machine
		st.key(machinesC, m.id), st.key(historyC, m.id), st.key(removalsC, m.id),
		st.key(cleanupsC, forceMachine+":"+m.id),
		st.key(cleanupsC, destroyModel), m.releaseKey(), // these are only read
	}
	own := len(keys) - 2
	if parent != "" {
		keys = append(keys, st.key(machinesC, parent))
	}
	docs, err := st.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot remove machine %s", m.id)
	}
	if docs[0].Rev == 0 {
		return nil, nil
	}
	self, err := decode[machineDoc](docs[0])
	if err != nil {
		return nil, errors.Trace(err)
	}
	if self.Life != life.Dead && !force {
		return nil, typedf(ErrNotDead, "cannot remove machine %s: machine is not dead", m.id)
	}
	if len(self.Containers) > 0 { // they may have come after its death
		return nil, errors.Annotatef(hostingError(m.id, self.Containers), "cannot remove machine %s", m.id)
	}
	var ops []store.Op
	for _, d := range docs[:own] {
		if d.Rev != 0 {
			ops = append(ops, store.Remove(d.Key, d.Rev))
		}
	}
	if len(self.Allocated) > 0 { // the releaser gives them back
		op, err := writeOp(m.releaseKey(), docs[own+1].Rev, cleanupDoc{Asked: st.c.now()}, nil)
		if err != nil {
			return nil, errors.Trace(err)
		}
		ops = append(ops, op)
	}
	if d := docs[own]; d.Rev != 0 { // so that the cleaner looks whether the model is empty
		ops = append(ops, store.Replace(d.Key, d.Rev, d.Data, nil))
	}
	if parent == "" || docs[own+2].Rev == 0 {
		return ops, nil
	}
	host, err := decode[machineDoc](docs[own+2])
	if err != nil {
		return nil, errors.Trace(err)
	}
	host.Containers = slices.DeleteFunc(host.Containers, func(id string) bool { return id == m.id })
	op, err := st.machineOp(parent, docs[own+2].Rev, host)
	return append(ops, op), err
}

// hostingError says that a machine cannot end because of its containers.
func hostingError(id string, containers []string) error {
	ids := slices.Clone(containers)
	tag.SortMachines(ids)
	return typedf(kind.HasContainers, "machine %s is hosting containers %q", id, strings.Join(ids, ","))
}

// ForceDestroy asks for the machine's end whatever it hosts and whether its
// instance answers or not, and returns at once: the work is done by the
// cleaner (see Cleanups). It returns an error satisfying ErrRequired for a
// machine that manages the model.
func (m *Machine) ForceDestroy(ctx context.Context) error {
	err := m.run(ctx, func(int) ([]store.Op, error) {
		docs, err := m.st.c.store.GetAll(ctx, []store.Key{
			m.st.key(machinesC, m.id), m.st.key(cleanupsC, forceMachine+":"+m.id)})
		if err != nil || docs[0].Rev == 0 || docs[1].Rev != 0 {
			return nil, err
		}
		d, err := decode[machineDoc](docs[0])
		if err != nil {
			return nil, err
		}
		if slices.Contains(d.Jobs, job.ManageModel) {
			return nil, typedf(ErrRequired, "machine is required by the model")
		}
		op, err := insertOp(docs[1].Key, cleanupDoc{Asked: m.st.c.now()}, nil)
		return []store.Op{op}, err
	})
	if errors.Is(err, ErrRequired) {
		return err
	}
	return errors.Annotatef(err, "cannot destroy machine %s", m.id)
}

// MarkForRemoval queues a dead machine for the cleaner, who removes it. Marking
// twice is a success. It returns an error satisfying ErrNotDead for another
// life, and errors.NotFound for a machine that is gone.
func (m *Machine) MarkForRemoval(ctx context.Context) error {
	return m.run(ctx, func(int) ([]store.Op, error) {
		docs, err := m.st.c.store.GetAll(ctx, []store.Key{m.st.key(machinesC, m.id), m.st.key(removalsC, m.id)})
		if err != nil {
			return nil, errors.Annotatef(err, "cannot mark machine %s for removal", m.id)
		}
		if docs[0].Rev == 0 {
			return nil, errors.NotFoundf("machine %s", m.id)
		}
		d, err := decode[machineDoc](docs[0])
		if err != nil {
			return nil, errors.Trace(err)
		}
		if d.Life != life.Dead {
			return nil, typedf(ErrNotDead, "cannot remove machine %s: machine is not dead", m.id)
		}
		if docs[1].Rev != 0 {
			return nil, nil
		}
		op, err := insertOp(docs[1].Key, cleanupDoc{Asked: m.st.c.now()}, nil)
		return []store.Op{store.Assert(docs[0].Key, docs[0].Rev), op}, err
	})
}

// MarkedForRemoval returns the ids of the machines that MarkForRemoval queued
// and that have not been removed, in the order of tag.CompareMachines.
func (ms *Machines) MarkedForRemoval(ctx context.Context) ([]string, error) {
	var ids []string
	q := store.Query{Collection: removalsC, Prefix: ms.st.modelUUID + ":"}
	err := eachDoc(ctx, ms.st.c.store, q, func(d store.Doc) error {
		_, id := splitID(d.ID)
		ids = append(ids, id)
		return nil
	})
	tag.SortMachines(ids)
	return ids, errors.Annotate(err, "cannot list machines marked for removal")
}
