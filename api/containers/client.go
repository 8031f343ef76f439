// Package containers asks the Containers facade, version 1: what the agent of a
// machine that holds containers hears of them beyond what package provisioner asks.
package containers

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

// Client makes the calls of one machine's agent. Its methods may be called
// concurrently.
type Client struct {
	caller api.Caller
	tag    string
}

// New returns a client that uses the connection of the agent of a machine,
// given by id.
func New(c api.Caller, machineID string) *Client {
	return &Client{caller: c, tag: api.MachineTag(machineID)}
}

// WatchRetries watches requests for another try of the machine's direct containers
// that are in error. Its first event is due at once.
func (c *Client) WatchRetries(ctx context.Context) (watcher.NotifyWatcher, error) {
	var r params.NotifyWatchResults
	args := params.Entities{Entities: []params.Entity{{Tag: c.tag}}}
	if err := c.caller.Call(ctx, rpc.Request{Type: "Containers", Version: 1, Method: "WatchRetries"}, args, &r); err != nil {
		return nil, errors.Trace(err)
	}
	result, err := api.One(api.ResultsOf(r.Results, 1, func(r *params.NotifyWatchResult) (params.NotifyWatchResult, *params.Error) {
		return *r, r.Error
	}))
	if err != nil {
		return nil, errors.Trace(err)
	}
	return api.NewNotifyWatcher(c.caller, result)
}
