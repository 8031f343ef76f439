// Package upgrader asks the facade Upgrader, version 1: which version the agent of a
// machine should run. Every call is about the caller's own machine.
package upgrader

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
	return rpc.Request{Type: "Upgrader", Version: 1, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// WatchAPIVersion tells when the version that a machine's agent should run may have
// changed.
func (c *Client) WatchAPIVersion(ctx context.Context, machine string) (watcher.NotifyWatcher, error) {
	var r params.NotifyWatchResults
	if err := c.call(ctx, "WatchAPIVersion", api.Machines([]string{machine}), &r); err != nil {
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

// DesiredVersion returns the version that a machine's agent should run.
func (c *Client) DesiredVersion(ctx context.Context, machine string) (string, error) {
	var r params.VersionResults
	if err := c.call(ctx, "DesiredVersion", api.Machines([]string{machine}), &r); err != nil {
		return "", err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.VersionResult) (string, *params.Error) { return r.Version, r.Error }))
}

// Tools returns where a machine's agent gets the binary that it should run.
func (c *Client) Tools(ctx context.Context, machine string) ([]params.Tools, error) {
	var r params.ToolsResults
	if err := c.call(ctx, "Tools", api.Machines([]string{machine}), &r); err != nil {
		return nil, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.ToolsResult) ([]params.Tools, *params.Error) { return r.Tools, r.Error }))
}

// SetTools records what a machine's agent runs, as number-series-arch.
func (c *Client) SetTools(ctx context.Context, machine, version string) error {
	args := params.SetAgentTools{AgentTools: []params.AgentTools{{Tag: api.MachineTag(machine)}}}
	args.AgentTools[0].Tools.Version = version
	var r params.ErrorResults
	if err := c.call(ctx, "SetTools", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
