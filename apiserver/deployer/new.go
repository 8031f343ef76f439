package deployer

import (
	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Deployer, error) {
	site := below.Site{State: st}
	return newDeployer(Below{Finder: st, Addresses: site, StateAddresses: site.StateAddresses}, c)
}
