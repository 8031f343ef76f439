package singular

import (
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection. What is claimed opens the fence that st
// is behind.
func New(st *state.State, c common.Connection) (*Singular, error) {
	site := st.Controller()
	return newSingular(Leases{
		ModelUUID: st.ModelUUID(), ControllerUUID: site.ControllerUUID(),
		Model: st.Lease(), Site: st.SiteLease(),
	}, c)
}
