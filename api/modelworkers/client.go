// Package modelworkers asks the ModelWorkers facade, version 1: which models
// there are for a worker to care for, and which identities workers have.
package modelworkers

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

// New returns a client that uses a connection to the controller model.
func New(c api.Caller) *Client { return &Client{caller: c} }

func request(method string) rpc.Request {
	return rpc.Request{Type: "ModelWorkers", Version: 1, Method: method}
}

// WatchModels watches which models there are, and their lives, by UUID. It is
// for managers only.
func (c *Client) WatchModels(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.caller, request("WatchModels"))
}

// Add makes an identity for a worker. Its password is told this once.
func (c *Client) Add(ctx context.Context, name string) (params.WorkerIdentity, error) {
	var r params.AddWorkerResults
	args := params.AddWorkers{Workers: []params.AddWorker{{Name: name}}}
	if err := c.caller.Call(ctx, request("AddWorkers"), args, &r); err != nil {
		return params.WorkerIdentity{}, errors.Trace(err)
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.AddWorkerResult) (params.WorkerIdentity, *params.Error) {
		if r.Error == nil && r.Result == nil {
			return params.WorkerIdentity{}, &params.Error{Message: "server answered with no identity"}
		}
		if r.Error != nil {
			return params.WorkerIdentity{}, r.Error
		}
		return *r.Result, nil
	}))
}

// Remove revokes the identity of a worker and ends its connections.
func (c *Client) Remove(ctx context.Context, name string) error {
	var r params.ErrorResults
	if err := c.caller.Call(ctx, request("RemoveWorkers"), params.RemoveWorkers{Names: []string{name}}, &r); err != nil {
		return errors.Trace(err)
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
