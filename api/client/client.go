// Package client asks the Client facade, version 1: what an operator sees of a
// model and does to its machines.
package client

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Client makes the calls. Its methods may be called concurrently.
type Client struct {
	caller api.Caller
}

// New returns a client that uses a connection to a model.
func New(c api.Caller) *Client { return &Client{caller: c} }

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "Client", Version: 1, Method: method}, args, result))
}

// FullStatus returns the status of the model and of the machines that a pattern
// matches; no pattern means all of them.
func (c *Client) FullStatus(ctx context.Context, patterns ...string) (params.FullStatus, error) {
	var r params.FullStatus
	err := c.call(ctx, "FullStatus", params.StatusParams{Patterns: patterns}, &r)
	return r, err
}

// AddMachines adds machines and returns their ids.
func (c *Client) AddMachines(ctx context.Context, machines ...params.AddMachineParams) ([]api.Result[string], error) {
	var r params.AddMachinesResults
	if err := c.call(ctx, "AddMachinesV2", params.AddMachines{Machines: machines}, &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Machines, len(machines), func(r *params.AddMachinesResult) (string, *params.Error) {
		return r.Machine, r.Error
	})
}

// DestroyMachines begins to remove machines, given by id. With force their
// containers go too, and nothing holds the removal up. The error names all
// machines that were not destroyed.
func (c *Client) DestroyMachines(ctx context.Context, force bool, ids ...string) error {
	return c.call(ctx, "DestroyMachines", params.DestroyMachines{MachineNames: ids, Force: force}, nil)
}

// RetryProvisioning has machines in error tried again.
func (c *Client) RetryProvisioning(ctx context.Context, ids ...string) ([]error, error) {
	var r params.ErrorResults
	if err := c.call(ctx, "RetryProvisioning", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(ids))
}

// ModelConstraints returns what machines of the model must be like unless they
// are asked to be otherwise.
func (c *Client) ModelConstraints(ctx context.Context) (constraints.Value, error) {
	var r params.GetConstraintsResults
	err := c.call(ctx, "GetModelConstraints", nil, &r)
	return r.Constraints, err
}

// SetModelConstraints replaces the model's constraints.
func (c *Client) SetModelConstraints(ctx context.Context, v constraints.Value) error {
	return c.call(ctx, "SetModelConstraints", params.SetConstraints{Constraints: v}, nil)
}

// SetModelAgentVersion says which version the model's agents are to run, such as
// 2.0.1. Those that are newer stay, or go back if downgrade says so.
func (c *Client) SetModelAgentVersion(ctx context.Context, version string, downgrade bool) error {
	return c.call(ctx, "SetModelAgentVersion", params.SetModelAgentVersion{Version: version, AllowDowngrade: downgrade}, nil)
}

// ModelInfo describes the model.
func (c *Client) ModelInfo(ctx context.Context) (params.ModelInfo, error) {
	var r params.ModelInfo
	err := c.call(ctx, "ModelInfo", nil, &r)
	return r, err
}

// Deltas is a stream of changes to a model; the first event holds everything
// there is.
type Deltas = api.Stream[[]params.Delta]

// WatchAll follows every change in the model.
func (c *Client) WatchAll(ctx context.Context) (*Deltas, error) {
	var r params.AllWatcherID
	if err := c.call(ctx, "WatchAll", nil, &r); err != nil {
		return nil, err
	}
	return api.NewStream(api.StreamConfig[[]params.Delta]{
		Caller: c.caller, Facade: "AllWatcher", Version: 1, ID: r.WatcherID,
		Next: func(call func(any) error) ([]params.Delta, error) {
			var next params.AllWatcherNextResults
			err := call(&next)
			return next.Deltas, err
		},
	}), nil
}
