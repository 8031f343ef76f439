// Package upgrader asks the Upgrader facade, version 1: which version the agent
// of a machine should run, and where to get it.
package upgrader

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

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "Upgrader", Version: 1, Method: method}, args, result))
}

func (c *Client) self() params.Entities {
	return params.Entities{Entities: []params.Entity{{Tag: c.tag}}}
}

// Desired is what an agent should run.
type Desired struct {
	Number    string // such as 2.0.1; empty means whatever it is
	Downgrade bool   // whether an agent that is newer should go back
}

// Watch tells when what the agent should run may have changed.
func (c *Client) Watch(ctx context.Context) (watcher.NotifyWatcher, error) {
	var r params.NotifyWatchResults
	if err := c.call(ctx, "WatchAPIVersion", c.self(), &r); err != nil {
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

// Desired returns what the agent should run.
func (c *Client) Desired(ctx context.Context) (Desired, error) {
	var r params.VersionResults
	if err := c.call(ctx, "DesiredVersion", c.self(), &r); err != nil {
		return Desired{}, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.VersionResult) (Desired, *params.Error) {
		return Desired{Number: r.Version, Downgrade: r.Downgrade}, r.Error
	}))
}

// Tools returns the binaries of the desired version that fit what the agent has
// reported to run. It returns an error satisfying errors.NotFound if there are
// none.
func (c *Client) Tools(ctx context.Context) ([]params.Tools, error) {
	var r params.ToolsResults
	if err := c.call(ctx, "Tools", c.self(), &r); err != nil {
		return nil, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.ToolsResult) ([]params.Tools, *params.Error) {
		return r.Tools, r.Error
	}))
}

// SetTools reports what the agent runs, such as 2.0.1-jammy-amd64.
func (c *Client) SetTools(ctx context.Context, version string) error {
	a := params.AgentTools{Tag: c.tag}
	a.Tools.Version = version
	var r params.ErrorResults
	if err := c.call(ctx, "SetTools", params.SetAgentTools{AgentTools: []params.AgentTools{a}}, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
