package environs

import (
	"context"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// HostPool is the site's bare-metal hosts, as whoever cares for one model may use
// them; see package api/hosts, whose Client is one.
type HostPool interface {
	// Allocate gives machines of the model free hosts, and returns for each its host or
	// an error in failed. A machine that has one with the same nonce keeps it; with
	// another nonce its error satisfies errors.AlreadyExists.
	Allocate(ctx context.Context, machines ...params.AllocateHost) (given []params.ConsumedHost, failed []error, err error)
	// Release takes hosts away from the machines that have them, and gives one result for
	// each. A host that is free, or gone, is no error.
	Release(ctx context.Context, names ...string) ([]error, error)
	// Consumed returns the hosts that machines of the model have: those among names, or
	// all if there are no names.
	Consumed(ctx context.Context, names ...string) ([]params.ConsumedHost, error)
	// WatchConsumed watches of which hosts, of all models, the report changes.
	WatchConsumed(ctx context.Context) (watcher.StringsWatcher, error)
	// Zones returns the zones that hosts are in.
	Zones(ctx context.Context) ([]params.HostZone, error)
}
