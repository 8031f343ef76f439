package modelworkers

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/watcher"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*ModelWorkers, error) {
	return newModelWorkers(backend{st.Controller()}, c)
}

// backend adapts state to what the facade needs.
type backend struct{ c *state.Controller }

var _ Backend = backend{}

func (b backend) ControllerModelUUID() string { return b.c.ControllerModelUUID() }

func (b backend) WatchModels(ctx context.Context) (watcher.StringsWatcher, error) {
	return b.c.Models().Watch(ctx)
}

func (b backend) AddWorker(ctx context.Context, name, nonce, password string) (tag.Tag, error) {
	m, err := b.c.Workers().Add(ctx, state.WorkerSpec{Name: name, Nonce: nonce, Password: password})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return m.Tag(), nil
}

func (b backend) RemoveWorker(ctx context.Context, name string) (tag.Tag, error) {
	all, err := b.c.Workers().All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, m := range all {
		if m.Worker() == name {
			return m.Tag(), errors.Trace(b.c.Workers().Remove(ctx, name))
		}
	}
	return nil, errors.NotFoundf("worker %q", name)
}
