package usermanager

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*UserManager, error) {
	return newUserManager(backend{st.Controller().Users()}, c)
}

// backend adapts state to what the facade needs.
type backend struct{ users *state.Users }

var _ Backend = backend{}

// user is a *state.User that tells its names together.
type user struct{ *state.User }

// Names implements Described.
func (u user) Names() (name, display, createdBy string) {
	return u.Name(), u.DisplayName(), u.CreatedBy()
}

func (b backend) Add(ctx context.Context, u NewUser) (User, error) {
	added, err := b.users.Add(ctx, state.UserSpec{
		Name: u.Name, DisplayName: u.DisplayName, Password: string(u.Password), CreatedBy: u.CreatedBy,
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return user{added}, nil
}

func (b backend) Get(ctx context.Context, name string) (User, error) {
	u, err := b.users.Get(ctx, name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return user{u}, nil
}

func (b backend) All(ctx context.Context) ([]User, error) {
	all, err := b.users.All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := make([]User, len(all))
	for i, u := range all {
		out[i] = user{u}
	}
	return out, nil
}
