// Package statushistory asks the StatusHistory facade, version 2: what the
// statuses of machines have been.
package statushistory

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Client makes the calls. Its methods may be called concurrently.
type Client struct {
	caller api.Caller
}

// New returns a client that uses a connection to a model.
func New(c api.Caller) *Client { return &Client{caller: c} }

// Of returns the history of each kind of one machine, given by id, newest first:
// at most limit statuses of each kind, or all that are kept if limit is 0.
func (c *Client) Of(ctx context.Context, id string, limit int, kinds ...string) ([][]params.DetailedStatus, error) {
	var args params.StatusHistoryRequests
	for _, kind := range kinds {
		args.Requests = append(args.Requests, params.StatusHistoryRequest{
			Kind: kind, Tag: api.MachineTag(id), Filter: params.StatusHistoryFilter{Size: limit},
		})
	}
	var r params.StatusHistoryResults
	err := c.caller.Call(ctx, rpc.Request{Type: "StatusHistory", Version: 2, Method: "StatusHistory"}, args, &r)
	if err != nil {
		return nil, errors.Trace(err)
	}
	results, err := api.ResultsOf(r.Results, len(kinds), func(r *params.StatusHistoryResult) ([]params.DetailedStatus, *params.Error) {
		if r.Error != nil {
			return nil, r.Error
		}
		return r.History.Statuses, r.History.Error
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := make([][]params.DetailedStatus, len(results))
	for i, result := range results {
		if result.Err != nil {
			return nil, errors.Trace(result.Err)
		}
		out[i] = result.Value
	}
	return out, nil
}
