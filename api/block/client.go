// Package block asks the facade Block, version 2: operations that are switched off
// in a model.
package block

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
	return rpc.Request{Type: "Block", Version: 2, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// List returns the blocks that are on.
func (c *Client) List(ctx context.Context) ([]params.Block, error) {
	var r params.BlockResults
	if err := c.call(ctx, "List", nil, &r); err != nil {
		return nil, err
	}
	out := make([]params.Block, len(r.Results))
	for i, b := range r.Results {
		if err := api.ErrorOf(b.Error); err != nil {
			return nil, err
		}
		out[i] = b.Result
	}
	return out, nil
}

// SwitchOn switches a kind of operation off; see params.Block. The message is for
// whoever tries one.
func (c *Client) SwitchOn(ctx context.Context, kind, message string) error {
	return c.change(ctx, "SwitchBlockOn", params.BlockSwitchParams{Type: kind, Message: message})
}

// SwitchOff switches a kind of operation on again.
func (c *Client) SwitchOff(ctx context.Context, kind string) error {
	return c.change(ctx, "SwitchBlockOff", params.BlockSwitchParams{Type: kind})
}

func (c *Client) change(ctx context.Context, method string, args params.BlockSwitchParams) error {
	var r params.ErrorResult
	if err := c.call(ctx, method, args, &r); err != nil {
		return err
	}
	return api.ErrorOf(r.Error)
}
