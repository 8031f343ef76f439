package modelconfig

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*ModelConfig, error) {
	return newModelConfig(backend{below.Config{State: st}}, c)
}

// backend adapts state to what the facade needs.
type backend struct{ below.Config }

func (b backend) Update(ctx context.Context, u config.Update) error {
	return b.State.ModelConfig().Update(ctx, u)
}
