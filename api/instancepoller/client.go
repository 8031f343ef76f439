// Package instancepoller asks the facade InstancePoller, version 3: what whoever watches
// a provider's instances needs of their machines. It is for managers.
package instancepoller

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
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
	return rpc.Request{Type: "InstancePoller", Version: 3, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// WatchModelMachines watches the lives of the model's top-level machines, by id.
func (c *Client) WatchModelMachines(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.caller, request("WatchModelMachines"))
}

// InstanceIDs returns the instances of machines. The error for a machine without
// one satisfies errors.NotProvisioned.
func (c *Client) InstanceIDs(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	var r params.StringResults
	if err := c.call(ctx, "InstanceId", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.StringResult) (instance.ID, *params.Error) {
		return instance.ID(r.Result), r.Error
	})
}

// InstanceStatus returns the statuses of machines' instances, without when they
// were set.
func (c *Client) InstanceStatus(ctx context.Context, ids ...string) ([]api.Result[status.Info], error) {
	var r params.StatusResults
	if err := c.call(ctx, "InstanceStatus", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.StatusResult) (status.Info, *params.Error) {
		return status.Info{Status: status.Status(r.Status), Message: r.Info, Data: r.Data}, r.Error
	})
}

// ProviderAddresses returns the addresses that the provider knows of machines.
func (c *Client) ProviderAddresses(ctx context.Context, ids ...string) ([]api.Result[[]network.Address], error) {
	var r params.MachineAddressesResults
	if err := c.call(ctx, "ProviderAddresses", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.MachineAddressesResult) ([]network.Address, *params.Error) {
		return r.Addresses, r.Error
	})
}

// AreManuallyProvisioned reports which machines somebody set up by hand.
func (c *Client) AreManuallyProvisioned(ctx context.Context, ids ...string) ([]api.Result[bool], error) {
	var r params.BoolResults
	if err := c.call(ctx, "AreManuallyProvisioned", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.BoolResult) (bool, *params.Error) { return r.Result, r.Error })
}

// Seen is what a provider says of a machine's instance.
type Seen struct {
	ID        string // of the machine
	Status    status.Status
	Message   string
	Addresses []network.Address
}

// SetInstanceStatus records the statuses of machines' instances.
func (c *Client) SetInstanceStatus(ctx context.Context, seen ...Seen) ([]error, error) {
	args := params.SetStatus{Entities: make([]params.EntityStatusArgs, len(seen))}
	for i, s := range seen {
		args.Entities[i] = params.EntityStatusArgs{Tag: api.MachineTag(s.ID), Status: string(s.Status), Info: s.Message}
	}
	var r params.ErrorResults
	if err := c.call(ctx, "SetInstanceStatus", args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(seen))
}

// SetProviderAddresses records the addresses that the provider knows of machines.
func (c *Client) SetProviderAddresses(ctx context.Context, seen ...Seen) ([]error, error) {
	args := params.SetMachinesAddresses{MachineAddresses: make([]params.MachineAddresses, len(seen))}
	for i, s := range seen {
		args.MachineAddresses[i] = params.MachineAddresses{Tag: api.MachineTag(s.ID), Addresses: s.Addresses}
	}
	var r params.ErrorResults
	if err := c.call(ctx, "SetProviderAddresses", args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(seen))
}
