package common

import (
	"context"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Deadener is what DeadEnsurer needs of an entity.
type Deadener interface {
	// EnsureDead makes the entity dead, unless something prevents it.
	EnsureDead(ctx context.Context) error
}

// DeadEnsurer gives a facade the method EnsureDead.
type DeadEnsurer struct{ bulk Bulk[Deadener] }

// NewDeadEnsurer returns a DeadEnsurer for the entities that canModify allows.
func NewDeadEnsurer(get EntityGetter[Deadener], canModify GetAuthFunc) *DeadEnsurer {
	return &DeadEnsurer{Bulk[Deadener]{Get: get, Can: canModify, Fresh: true}}
}

// EnsureDead makes each entity dead. A text that is no tag fails the whole
// call; what stands before it is done all the same.
func (d *DeadEnsurer) EnsureDead(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	var malformed error
	for i, e := range args.Entities {
		if _, malformed = tag.ParseTag(e.Tag); malformed != nil {
			args.Entities = args.Entities[:i]
			break
		}
	}
	results := make([]params.ErrorResult, len(args.Entities))
	err := d.bulk.Do(ctx, len(results), tagOf(args), func(_ int, e Deadener) error {
		return e.EnsureDead(ctx)
	}, func(i int, err *params.Error) { results[i].Error = err })
	if err == nil {
		err = malformed
	}
	return params.ErrorResults{Results: results}, err
}
