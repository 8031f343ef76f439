// Package deployer asks the facade Deployer, version 1: for the units that a machine is
// to run, of which there are none.
package deployer

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

// Client makes the calls. Its methods may be called concurrently.
type Client struct {
	caller api.Caller
}

// New returns a client that uses a connection to a model.
func New(c api.Caller) *Client { return &Client{caller: c} }

func request(method string) rpc.Request {
	return rpc.Request{Type: "Deployer", Version: 1, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// WatchUnits watches which units the caller's own machine is to run.
func (c *Client) WatchUnits(ctx context.Context, machine string) (watcher.StringsWatcher, error) {
	var r params.StringsWatchResults
	if err := c.call(ctx, "WatchUnits", api.Machines([]string{machine}), &r); err != nil {
		return nil, err
	}
	result, err := api.One(api.ResultsOf(r.Results, 1, func(r *params.StringsWatchResult) (params.StringsWatchResult, *params.Error) {
		return *r, r.Error
	}))
	if err != nil {
		return nil, err
	}
	return api.NewStringsWatcher(c.caller, result)
}

// ConnectionInfo returns where the site can be reached.
func (c *Client) ConnectionInfo(ctx context.Context) (params.DeployerConnectionValues, error) {
	var r params.DeployerConnectionValues
	err := c.call(ctx, "ConnectionInfo", nil, &r)
	return r, err
}
