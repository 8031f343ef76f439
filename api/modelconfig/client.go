// Package modelconfig asks the ModelConfig facade, version 1: the settings of a
// model, as operators see and change them.
package modelconfig

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

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "ModelConfig", Version: 1, Method: method}, args, result))
}

// Get returns all settings, with where each comes from.
func (c *Client) Get(ctx context.Context) (map[string]params.ConfigValue, error) {
	var r params.ModelConfigResults
	err := c.call(ctx, "ModelGet", nil, &r)
	return r.Config, err
}

// Set changes settings, all or none.
func (c *Client) Set(ctx context.Context, settings map[string]any) error {
	return c.call(ctx, "ModelSet", params.ModelSet{Config: settings}, nil)
}

// Unset gives settings back their defaults, all or none.
func (c *Client) Unset(ctx context.Context, keys ...string) error {
	return c.call(ctx, "ModelUnset", params.ModelUnset{Keys: keys}, nil)
}
