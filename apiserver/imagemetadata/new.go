package imagemetadata

import (
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*ImageMetadata, error) {
	return newFacade(st.Images(), c)
}
