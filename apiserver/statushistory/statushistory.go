// Package statushistory is the facade StatusHistory, version 2: what the
// statuses of machines have been.
package statushistory

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	// Machines returns the machines with these ids, one for each, nil for a
	// missing one.
	Machines(ctx context.Context, ids []string) ([]Machine, error)
	// Now returns the time.
	Now() time.Time
}

// Machine knows what its statuses have been, newest first: all that are kept if
// limit is 0.
type Machine interface {
	StatusHistory(ctx context.Context, limit int) ([]status.Info, error)
	InstanceStatusHistory(ctx context.Context, limit int) ([]status.Info, error)
}

// StatusHistory is the facade of one connection.
type StatusHistory struct{ backend Backend }

// newStatusHistory returns the facade, or ErrPerm if the caller is no person who
// may read the model.
func newStatusHistory(backend Backend, auth common.Authorizer) (*StatusHistory, error) {
	if !common.AuthClient(auth) || !auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	return &StatusHistory{backend}, nil
}

// StatusHistory returns histories of statuses, newest first.
func (s *StatusHistory) StatusHistory(ctx context.Context, args params.StatusHistoryRequests) (params.StatusHistoryResults, error) {
	results := make([]params.StatusHistoryResult, len(args.Requests))
	ids := make([]string, len(args.Requests))
	for i, r := range args.Requests {
		results[i].History.Statuses = []params.DetailedStatus{}
		id, err := check(r)
		ids[i], results[i].Error = id, common.ServerError(err)
	}
	machines, err := s.backend.Machines(ctx, ids)
	if err != nil {
		return params.StatusHistoryResults{}, errors.Trace(err)
	}
	for i, r := range args.Requests {
		if results[i].Error != nil {
			continue
		}
		if machines[i] == nil {
			results[i].Error = common.ServerError(errors.NotFoundf("machine %s", ids[i]))
			continue
		}
		found, err := s.history(ctx, machines[i], r)
		if err != nil {
			results[i].Error = common.ServerError(err)
			continue
		}
		results[i].History.Statuses = found
	}
	return params.StatusHistoryResults{Results: results}, nil
}

// check returns the id of the machine that a request is about.
func check(r params.StatusHistoryRequest) (string, error) {
	t, err := tag.ParseMachineTag(r.Tag)
	if err != nil {
		return "", err
	}
	switch r.Kind {
	case params.HistoryMachineAgent, params.HistoryContainerAgent, params.HistoryMachine, params.HistoryContainer:
	default:
		return "", errors.NotValidf("status history kind %q", r.Kind)
	}
	if r.Size < 0 || r.Filter.Size < 0 {
		return "", errors.NotValidf("negative size")
	}
	return t.Id(), nil
}

// history returns what a request asks for.
func (s *StatusHistory) history(ctx context.Context, m Machine, r params.StatusHistoryRequest) ([]params.DetailedStatus, error) {
	read := m.StatusHistory
	if r.Kind == params.HistoryMachine || r.Kind == params.HistoryContainer {
		read = m.InstanceStatusHistory
	}
	all, err := read(ctx, 0)
	if err != nil {
		return nil, errors.Trace(err)
	}
	limit := r.Filter.Size
	if limit == 0 {
		limit = r.Size
	}
	out := []params.DetailedStatus{}
	for _, info := range all {
		if limit > 0 && len(out) == limit {
			break
		}
		if wanted(info, r.Filter, s.backend.Now()) {
			out = append(out, params.DetailedStatus{Status: string(info.Status), Info: info.Message, Data: map[string]any{},
				Since: common.Since(info.Since), Kind: r.Kind})
		}
	}
	return out, nil
}

// wanted reports whether a filter lets a status through.
func wanted(info status.Info, f params.StatusHistoryFilter, now time.Time) bool {
	switch {
	case f.Date != nil && info.Since.Before(*f.Date):
		return false
	case f.Delta != nil && info.Since.Before(now.Add(-time.Duration(*f.Delta))):
		return false
	}
	return !slices.Contains(f.Exclude, info.Message) || info.Message == ""
}
