package common

import (
	"context"
	"time"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// StatusHolder is what StatusSetter needs of an entity.
type StatusHolder interface {
	Tag() tag.Tag
	// SetStatus replaces the status. A zero Since means now.
	SetStatus(ctx context.Context, s status.Info) error
	// MergeStatusData lays data over the status's data and keeps the rest. It
	// refuses data beside any status but error.
	MergeStatusData(ctx context.Context, data map[string]any) error
}

// StatusSetter gives a facade the methods SetStatus and UpdateStatus.
type StatusSetter struct {
	get EntityGetter[StatusHolder]
	can GetAuthFunc
}

// NewStatusSetter returns a StatusSetter for the entities that canModify
// allows.
func NewStatusSetter(get EntityGetter[StatusHolder], canModify GetAuthFunc) *StatusSetter {
	return &StatusSetter{get, canModify}
}

// SetStatus replaces the status of each entity. All get the same time.
func (s *StatusSetter) SetStatus(ctx context.Context, args params.SetStatus) (params.ErrorResults, error) {
	now := time.Now()
	bulk := Bulk[StatusHolder]{Get: s.get, Can: s.can, Parse: ParseAny, Fresh: true}
	return s.each(ctx, bulk, args, func(e StatusHolder, a params.EntityStatusArgs) error {
		if e.Tag().Kind() == tag.ApplicationKind {
			return ErrPerm // an application's status follows from its units
		}
		return e.SetStatus(ctx, status.Info{Status: status.Status(a.Status), Message: a.Info, Data: a.Data, Since: now})
	})
}

// UpdateStatus merges data into the status of each entity, and keeps the rest
// of it. Only a status of error can hold data.
func (s *StatusSetter) UpdateStatus(ctx context.Context, args params.SetStatus) (params.ErrorResults, error) {
	bulk := Bulk[StatusHolder]{Get: s.get, Can: s.can, Fresh: true}
	return s.each(ctx, bulk, args, func(e StatusHolder, a params.EntityStatusArgs) error {
		return e.MergeStatusData(ctx, a.Data)
	})
}

func (s *StatusSetter) each(ctx context.Context, bulk Bulk[StatusHolder], args params.SetStatus, set func(StatusHolder, params.EntityStatusArgs) error) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Entities))
	err := bulk.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, e StatusHolder) error {
		return set(e, args.Entities[i])
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
