package instancepoller

import (
	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*InstancePoller, error) {
	return newPoller(Below{Finder: st, Config: below.Config{State: st}, WatchMachines: st.Machines().Watch}, c)
}
