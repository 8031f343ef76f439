package networks

import (
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// NewSubnets returns the facade Subnets of a connection.
func NewSubnets(st *state.State, c common.Connection) (*Subnets, error) {
	f, err := newFacade(st.Networks(), c)
	if err != nil {
		return nil, err
	}
	return &Subnets{f}, nil
}

// NewSpaces returns the facade Spaces of a connection.
func NewSpaces(st *state.State, c common.Connection) (*Spaces, error) {
	f, err := newFacade(st.Networks(), c)
	if err != nil {
		return nil, err
	}
	return &Spaces{f}, nil
}
