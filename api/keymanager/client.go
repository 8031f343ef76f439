// Package keymanager asks the facade KeyManager, version 1: the SSH keys that may
// log in to the machines of a model.
package keymanager

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

func request(method string) rpc.Request {
	return rpc.Request{Type: "KeyManager", Version: 1, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// List returns the keys, whole or as fingerprints with their comments. They are
// the model's, whoever the user is.
func (c *Client) List(ctx context.Context, user string, whole bool) ([]string, error) {
	var r params.StringsResults
	args := params.ListSSHKeys{Entities: params.Entities{Entities: []params.Entity{{Tag: user}}}, Mode: whole}
	if err := c.call(ctx, "ListKeys", args, &r); err != nil {
		return nil, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.StringsResult) ([]string, *params.Error) { return r.Result, r.Error }))
}

// Add adds keys, each a line as in authorized_keys.
func (c *Client) Add(ctx context.Context, user string, keys ...string) ([]error, error) {
	return c.change(ctx, "AddKeys", user, keys)
}

// Delete deletes keys, given by fingerprint or comment.
func (c *Client) Delete(ctx context.Context, user string, keys ...string) ([]error, error) {
	return c.change(ctx, "DeleteKeys", user, keys)
}

func (c *Client) change(ctx context.Context, method, user string, keys []string) ([]error, error) {
	var r params.ErrorResults
	if err := c.call(ctx, method, params.ModifyUserSSHKeys{User: user, Keys: keys}, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(keys))
}
