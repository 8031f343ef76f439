package common

import (
	"context"
	"time"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
)

// Statuser is what StatusGetter needs of an entity.
type Statuser interface {
	Status() status.Info
}

// StatusGetter gives a facade the method Status.
type StatusGetter struct{ bulk Bulk[Statuser] }

// NewStatusGetter returns a StatusGetter for the entities that canRead allows.
func NewStatusGetter(get EntityGetter[Statuser], canRead GetAuthFunc) *StatusGetter {
	return &StatusGetter{Bulk[Statuser]{Get: get, Can: canRead, Parse: ParseAny}}
}

// Status returns the status of each entity as its agent reported it.
func (g *StatusGetter) Status(ctx context.Context, args params.Entities) (params.StatusResults, error) {
	results := make([]params.StatusResult, len(args.Entities))
	err := g.bulk.Do(ctx, len(results), tagOf(args), func(i int, e Statuser) error {
		results[i] = StatusResult(e.Status())
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StatusResults{Results: results}, err
}

// StatusResult returns a status as it goes over the wire.
func StatusResult(s status.Info) params.StatusResult {
	data := s.Data
	if data == nil {
		data = map[string]any{}
	}
	return params.StatusResult{Status: string(s.Status), Info: s.Message, Data: data, Since: Since(s.Since)}
}

// Since returns a time as it goes over the wire: nil if it is not known.
func Since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
