package controller

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Controller, error) {
	return newController(backend{st.Controller().Users()}, c)
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
