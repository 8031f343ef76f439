// Package machinemanager asks the MachineManager facade, version 2: machines
// that are added with disks.
package machinemanager

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

// AddMachines adds machines and returns their ids.
func (c *Client) AddMachines(ctx context.Context, machines ...params.AddMachineParams) ([]api.Result[string], error) {
	var r params.AddMachinesResults
	q := rpc.Request{Type: "MachineManager", Version: 2, Method: "AddMachines"}
	if err := c.caller.Call(ctx, q, params.AddMachines{Machines: machines}, &r); err != nil {
		return nil, errors.Trace(err)
	}
	return api.ResultsOf(r.Machines, len(machines), func(r *params.AddMachinesResult) (string, *params.Error) {
		return r.Machine, r.Error
	})
}
