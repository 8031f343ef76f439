package common

import (
	"context"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/params"
)

// InstanceIder is what InstanceIdGetter needs of an entity.
type InstanceIder interface {
	// InstanceId returns the provider's name for the entity, or an error
	// satisfying errors.NotProvisioned.
	InstanceId() (instance.ID, error)
}

// InstanceIdGetter gives a facade the method InstanceId.
type InstanceIdGetter struct{ bulk Bulk[InstanceIder] }

// NewInstanceIdGetter returns an InstanceIdGetter for the entities that canRead
// allows.
func NewInstanceIdGetter(get EntityGetter[InstanceIder], canRead GetAuthFunc) *InstanceIdGetter {
	return &InstanceIdGetter{Bulk[InstanceIder]{Get: get, Can: canRead}}
}

// InstanceId returns the id of each entity's instance.
func (g *InstanceIdGetter) InstanceId(ctx context.Context, args params.Entities) (params.StringResults, error) {
	results := make([]params.StringResult, len(args.Entities))
	err := g.bulk.Do(ctx, len(results), tagOf(args), func(i int, e InstanceIder) error {
		id, err := e.InstanceId()
		results[i].Result = string(id)
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StringResults{Results: results}, err
}
