// Package machiner asks the Machiner facade, version 1: what a machine's own
// agent reports of it, and learns about it.
package machiner

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
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

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "Machiner", Version: 1, Method: method}, args, result))
}

func (c *Client) self() params.Entities {
	return params.Entities{Entities: []params.Entity{{Tag: c.tag}}}
}

// change calls a method that returns one error.
func (c *Client) change(ctx context.Context, method string, args any) error {
	var r params.ErrorResults
	if err := c.call(ctx, method, args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// Life returns the life of the machine.
func (c *Client) Life(ctx context.Context) (life.Value, error) {
	var r params.LifeResults
	if err := c.call(ctx, "Life", c.self(), &r); err != nil {
		return "", err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.LifeResult) (life.Value, *params.Error) {
		return life.Value(r.Life), r.Error
	}))
}

// Jobs returns the jobs of the machine.
func (c *Client) Jobs(ctx context.Context) ([]string, error) {
	var r params.JobsResults
	if err := c.call(ctx, "Jobs", c.self(), &r); err != nil {
		return nil, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.JobsResult) ([]string, *params.Error) {
		return r.Jobs, r.Error
	}))
}

// Watch watches the machine.
func (c *Client) Watch(ctx context.Context) (watcher.NotifyWatcher, error) {
	var r params.NotifyWatchResults
	if err := c.call(ctx, "Watch", c.self(), &r); err != nil {
		return nil, err
	}
	result, err := api.One(api.ResultsOf(r.Results, 1, func(r *params.NotifyWatchResult) (params.NotifyWatchResult, *params.Error) {
		return *r, r.Error
	}))
	if err != nil {
		return nil, err
	}
	return api.NewNotifyWatcher(c.caller, result)
}

// SetStatus says how the agent is.
func (c *Client) SetStatus(ctx context.Context, s status.Status, message string, data map[string]any) error {
	return c.change(ctx, "SetStatus", params.SetStatus{Entities: []params.EntityStatusArgs{
		{Tag: c.tag, Status: string(s), Info: message, Data: data},
	}})
}

// EnsureDead says that the agent has done its last work. It fails while the
// machine has containers.
func (c *Client) EnsureDead(ctx context.Context) error { return c.change(ctx, "EnsureDead", c.self()) }

// SetAddresses says which addresses the machine sees on itself.
func (c *Client) SetAddresses(ctx context.Context, addresses []network.Address) error {
	return c.change(ctx, "SetMachineAddresses", params.SetMachinesAddresses{MachineAddresses: []params.MachineAddresses{
		{Tag: c.tag, Addresses: addresses},
	}})
}

// SetObservedNetworkConfig says what the machine sees of its network.
func (c *Client) SetObservedNetworkConfig(ctx context.Context, config []params.NetworkConfig) error {
	return c.call(ctx, "SetObservedNetworkConfig", params.SetMachineNetworkConfig{Tag: c.tag, Config: config}, nil)
}
