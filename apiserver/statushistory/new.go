package statushistory

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*StatusHistory, error) {
	return newStatusHistory(backend{st}, c.Auth)
}

// backend adapts state to what the facade needs.
type backend struct{ st *state.State }

var _ Backend = backend{}

func (b backend) Machines(ctx context.Context, ids []string) ([]Machine, error) {
	found, err := b.st.Machines().GetAll(ctx, ids)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := make([]Machine, len(found))
	for i, m := range found {
		if m != nil {
			out[i] = m
		}
	}
	return out, nil
}

func (backend) Now() time.Time { return time.Now() }
