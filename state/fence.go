package state

import (
	"context"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/store"
)

// Fence stands between one connection of a manager and what it may write: a write
// passes only while the connection holds the lease, which the batch of the write
// itself asserts. It is closed until Lease.Claim opens it. All of its methods,
// and what is behind it, may be used by many goroutines.
type Fence struct {
	own string

	mu    sync.Mutex
	holds map[string]hold // by the name of the lease
}

// hold is a lease that was claimed.
type hold struct {
	epoch int64
	rev   store.Rev // of the lease's document
}

// NewFence returns a closed fence. The machine with the id own, and what it
// hosts, is outside of it: it is the connection's own, whoever cares for the
// model. An empty own means none.
func NewFence(own string) *Fence { return &Fence{own: own, holds: map[string]hold{}} }

// open notes that a lease is held at an epoch; an epoch of 0 means that it is
// held no more.
func (f *Fence) open(l *Lease, epoch int64, rev store.Rev) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds[l.name] = hold{epoch, rev}
}

// epochOf returns the epoch at which a lease was claimed; 0 means that it was not.
func (f *Fence) epochOf(l *Lease) int64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holds[l.name].epoch
}

// outside reports whether a machine is the connection's own.
func (f *Fence) outside(id string) bool {
	return f.own != "" && (id == f.own || strings.HasPrefix(id, f.own+"/"))
}

// guard returns a build function whose batches are applied only while the lease
// is held. Nothing more is read for that unless there was a conflict.
func (f *Fence) guard(ctx context.Context, l *Lease, build func(attempt int) ([]store.Op, error)) func(int) ([]store.Op, error) {
	return func(attempt int) ([]store.Op, error) {
		f.mu.Lock()
		held := f.holds[l.name]
		f.mu.Unlock()
		if held.epoch == 0 {
			return nil, denied(l)
		}
		if attempt > 0 { // the conflict may have been about the lease
			docs, err := l.c.store.GetAll(ctx, []store.Key{l.key()})
			if err != nil {
				return nil, errors.Annotatef(err, "cannot read lease %s", l.name)
			}
			if docs[0].Rev != held.rev {
				return nil, denied(l)
			}
		}
		ops, err := build(attempt)
		if err != nil || len(ops) == 0 {
			return nil, err
		}
		return append(ops, store.Assert(l.key(), held.rev)), nil
	}
}

// denied says that a connection does not hold a lease.
func denied(l *Lease) error {
	return errors.WithType(errors.Errorf("this connection does not hold lease %s", l.name), kind.LeaseDenied)
}

// WithFence returns the same model behind a fence: every write to the model and
// its machines passes only while the fence is open, and is otherwise refused with an
// error satisfying kind.LeaseDenied. Machines that are found through it are behind
// the fence too.
func (st *State) WithFence(f *Fence) *State {
	fenced := *st
	fenced.fence = f
	return &fenced
}

// run applies what build returns; see store.Run. Every write to a model but those to
// machines goes through it.
func (st *State) run(ctx context.Context, build func(attempt int) ([]store.Op, error)) error {
	if st.fence != nil {
		build = st.fence.guard(ctx, st.Lease(), build)
	}
	return st.c.run(ctx, build)
}

// run is State.run for writes to the machine.
func (m *Machine) run(ctx context.Context, build func(attempt int) ([]store.Op, error)) error {
	if f := m.st.fence; f != nil && f.outside(m.id) {
		return m.st.c.run(ctx, build)
	}
	return m.st.run(ctx, build)
}
