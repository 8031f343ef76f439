package machiner

import (
	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Machiner, error) {
	return newMachiner(st, below.Site{State: st}, c)
}
