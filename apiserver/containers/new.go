package containers

import (
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Containers, error) { return newContainers(st, c) }
