package state

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/store"
)

// Host returns the name of the bare-metal host that the machine was given; empty
// if it has none.
func (m *Machine) Host() string { return m.doc.Host }

// SetHost gives the machine a bare-metal host, or takes it away. choose is told which
// one it has, and returns which one it is to have and the operations that have to
// be applied in the same batch. It returns an error satisfying kind.Dead if a
// dead machine is to get one, and errors.NotFound if the machine has been removed.
func (m *Machine) SetHost(ctx context.Context, choose func(current string) (host string, more []store.Op, err error)) error {
	// A connection's own machine is no exception: hosts are given by whoever cares
	// for the model.
	return m.st.run(ctx, func(int) ([]store.Op, error) {
		fresh, err := m.st.machine(ctx, m.id)
		if err != nil {
			return nil, err
		}
		host, ops, err := choose(fresh.doc.Host)
		switch {
		case err != nil:
			return nil, errors.Trace(err)
		case host == fresh.doc.Host:
			return ops, nil
		case host != "" && fresh.doc.Life == life.Dead:
			return nil, kind.Dead
		}
		d := *fresh.doc
		d.Host = host
		op, err := m.st.machineOp(m.id, fresh.rev, &d)
		return append(ops, op), err
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
