package state

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Host returns the name of the bare-metal host that the machine was given; empty
// if it has none.
func (m *Machine) Host() string { return m.doc.Host }

// Same reports whether another reading of the machine found it as this one did; nil is
// one that found none.
func (m *Machine) Same(again *Machine) bool { return again != nil && again.rev == m.rev }

// NewHost says which bare-metal host a machine is to have.
type NewHost struct {
	Machine *Machine // as it was read
	Host    string
}

// SetHosts gives machines of the model bare-metal hosts, all in one batch or none.
// more returns the operations that have to be applied in the same batch, and may seal
// something for them; see SiteDocs.Settle. It is called once: the error satisfies
// store.ErrConflict if a machine is not as it was read any more, or an assertion of
// more's does not hold, and kind.LeaseDenied if this is behind a fence that is closed.
func (st *State) SetHosts(ctx context.Context, given []NewHost, more func() ([]store.Op, error)) error {
	defer st.c.writing.begin()()
	// A connection's own machine is no exception: hosts are given by whoever cares
	// for the model.
	return st.run(ctx, func(attempt int) ([]store.Op, error) {
		if attempt > 0 {
			return nil, store.ErrConflict
		}
		ops, err := more()
		if err != nil {
			return nil, errors.Trace(err)
		}
		for _, g := range given {
			d := *g.Machine.doc
			d.Host = g.Host
			op, err := st.machineOp(g.Machine.id, g.Machine.rev, &d)
			if err != nil {
				return nil, errors.Trace(err)
			}
			ops = append(ops, op)
		}
		return ops, nil
	})
}

// ReleaseHost takes its bare-metal host away from a machine of the model, which may
// have been removed already. more returns the operations that have to be applied in
// the same batch. A machine that has another host keeps it.
func (st *State) ReleaseHost(ctx context.Context, machineID, host string, more func() ([]store.Op, error)) error {
	return st.run(ctx, func(int) ([]store.Op, error) {
		ops, err := more()
		if err != nil {
			return nil, errors.Trace(err)
		}
		m, err := st.machine(ctx, machineID)
		switch {
		case errors.Is(err, errors.NotFound):
			return ops, nil
		case err != nil:
			return nil, err
		case m.doc.Host != host:
			return ops, nil
		}
		d := *m.doc
		d.Host = ""
		op, err := st.machineOp(machineID, m.rev, &d)
		return append(ops, op), err
	})
}
