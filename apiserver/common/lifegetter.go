package common

import (
	"context"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/params"
)

// Lifer is what LifeGetter needs of an entity.
type Lifer interface {
	Life() life.Value
}

// LifeGetter gives a facade the method Life.
type LifeGetter struct{ bulk Bulk[Lifer] }

// NewLifeGetter returns a LifeGetter for the entities that canRead allows.
func NewLifeGetter(get EntityGetter[Lifer], canRead GetAuthFunc) *LifeGetter {
	return &LifeGetter{Bulk[Lifer]{Get: get, Can: canRead}}
}

// Life returns the life of each entity.
func (g *LifeGetter) Life(ctx context.Context, args params.Entities) (params.LifeResults, error) {
	results := make([]params.LifeResult, len(args.Entities))
	err := g.bulk.Do(ctx, len(results), tagOf(args), func(i int, e Lifer) error {
		results[i].Life = string(e.Life())
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.LifeResults{Results: results}, err
}
