package common

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Removable is what Remover needs of an entity.
type Removable interface {
	Lifer
	Deadener
	Tag() tag.Tag
	// Remove removes the entity, which must be dead.
	Remove(ctx context.Context) error
}

// Remover gives a facade the method Remove.
type Remover struct {
	bulk   Bulk[Removable]
	ensure bool
}

// NewRemover returns a Remover for the entities that canModify allows. With
// ensureDead, entities are made dead first; without, living ones are refused.
func NewRemover(get EntityGetter[Removable], ensureDead bool, canModify GetAuthFunc) *Remover {
	return &Remover{Bulk[Removable]{Get: get, Can: canModify, Fresh: true}, ensureDead}
}

// Remove removes each entity for good.
func (r *Remover) Remove(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Entities))
	err := r.bulk.Do(ctx, len(results), tagOf(args), func(_ int, e Removable) error {
		if e.Life() == life.Alive {
			return errors.Errorf("cannot remove entity %q: still alive", e.Tag())
		}
		if r.ensure {
			if err := e.EnsureDead(ctx); err != nil {
				return err
			}
		}
		return e.Remove(ctx)
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
