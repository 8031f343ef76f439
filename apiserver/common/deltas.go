package common

import (
	"context"

	"github.com/slipway-project/slipway/params"
)

// Deltas is a resource that tells whole entities.
type Deltas interface {
	Resource
	// Next returns everything there is the first time, and then what has
	// changed, once something has.
	Next(ctx context.Context) ([]params.Delta, error)
}
