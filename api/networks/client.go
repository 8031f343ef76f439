// Package networks asks the facades Spaces and Subnets, version 2: the networks
// that a model knows.
package networks

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

func (c *Client) call(ctx context.Context, facade, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: facade, Version: 2, Method: method}, args, result))
}

// AddSpace adds a space.
func (c *Client) AddSpace(ctx context.Context, s params.CreateSpace) error {
	var r params.ErrorResults
	if err := c.call(ctx, "Spaces", "CreateSpaces", params.CreateSpaces{Spaces: []params.CreateSpace{s}}, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// Spaces returns every space with its subnets.
func (c *Client) Spaces(ctx context.Context) ([]params.Space, error) {
	var r params.ListSpacesResults
	err := c.call(ctx, "Spaces", "ListSpaces", nil, &r)
	return r.Results, err
}

// AddSubnet adds a subnet to a space.
func (c *Client) AddSubnet(ctx context.Context, s params.AddSubnet) error {
	var r params.ErrorResults
	if err := c.call(ctx, "Subnets", "AddSubnets", params.AddSubnets{Subnets: []params.AddSubnet{s}}, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// Subnets returns the subnets that a filter lets pass.
func (c *Client) Subnets(ctx context.Context, f params.SubnetsFilters) ([]params.Subnet, error) {
	var r params.ListSubnetsResults
	err := c.call(ctx, "Subnets", "ListSubnets", f, &r)
	return r.Results, err
}
