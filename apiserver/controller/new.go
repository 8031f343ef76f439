package controller

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/watcher"
)

// Maker makes the facade.
type Maker struct {
	// Follow returns what tells everything in one model, for a caller who may see
	// it. Required.
	Follow func(st *state.State, c common.Connection) common.Deltas
}

// V3 returns version 3 of the facade of a connection.
func (m Maker) V3(st *state.State, c common.Connection) (*V3, error) {
	part, err := newController(backend{st.Controller().Users()}, c)
	if err != nil {
		return nil, err
	}
	return &V3{part, reads{st.Controller(), m, c}, c}, nil
}

// V5 returns version 5 of the facade of a connection.
func (m Maker) V5(st *state.State, c common.Connection) (*V5, error) {
	v3, err := m.V3(st, c)
	if err != nil {
		return nil, err
	}
	return &V5{v3}, nil
}

// backend adapts state to what the facade needs.
type backend struct{ users *state.Users }

var _ Backend = backend{}

func (b backend) User(ctx context.Context, name string) (User, error) {
	u, err := b.users.Get(ctx, name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return u, nil
}

// reads adapts state to what the facade needs beside that.
type reads struct {
	*state.Controller
	maker Maker
	conn  common.Connection
}

var _ Reads = reads{}

func (r reads) All(ctx context.Context) ([]Model, error) {
	all, err := r.Models().All(ctx)
	out := make([]Model, len(all))
	for i, m := range all {
		out[i] = model{m}
	}
	return out, errors.Trace(err)
}

func (r reads) Model(ctx context.Context, uuid string) (Model, error) {
	m, err := r.Models().Get(ctx, uuid)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return model{m}, nil
}

func (r reads) ControllerModelConfig(ctx context.Context) (*config.Config, error) {
	st, err := r.State(ctx, r.ControllerModelUUID())
	if err != nil {
		return nil, errors.Trace(err)
	}
	return st.ModelConfig().Get(ctx)
}

func (r reads) Access(ctx context.Context, user string) (access.Controller, error) {
	u, err := r.Users().Get(ctx, user)
	if err != nil {
		return "", errors.Trace(err)
	}
	return u.Access(), nil
}

func (r reads) Blocked(ctx context.Context) ([]Blocked, error) {
	all, err := r.Models().Blocked(ctx)
	out := make([]Blocked, len(all))
	for i, b := range all {
		out[i] = Blocked{model{b.Model}, b.Kinds}
	}
	return out, errors.Trace(err)
}

func (r reads) Unblock(ctx context.Context, uuid string) error {
	st, err := r.State(ctx, uuid)
	if err != nil {
		return errors.Trace(err)
	}
	return st.Blocks().Clear(ctx)
}

func (r reads) WatchModels(ctx context.Context) (watcher.StringsWatcher, error) {
	return r.Models().Watch(ctx)
}

func (r reads) Follow(ctx context.Context, uuid string) (common.Deltas, error) {
	st, err := r.State(ctx, uuid)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return r.maker.Follow(st, r.conn), nil
}

// model is a *state.Model that counts its machines.
type model struct{ *state.Model }

// Machines returns how many machines and containers the model has.
func (m model) Machines(ctx context.Context) (int, error) {
	all, err := m.State().Machines().All(ctx)
	return len(all), errors.Trace(err)
}
