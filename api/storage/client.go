// Package storage asks the facade Storage, version 3: the storage pools of a
// model.
package storage

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
	return rpc.Request{Type: "Storage", Version: 3, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// CreatePool makes a storage pool.
func (c *Client) CreatePool(ctx context.Context, p params.StoragePool) error {
	return c.call(ctx, "CreatePool", p, nil)
}

// Pools returns the storage pools that a filter lets pass, by name.
func (c *Client) Pools(ctx context.Context, f params.StoragePoolFilter) ([]params.StoragePool, error) {
	var r params.StoragePoolsResults
	if err := c.call(ctx, "ListPools", params.StoragePoolFilters{Filters: []params.StoragePoolFilter{f}}, &r); err != nil {
		return nil, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.StoragePoolsResult) ([]params.StoragePool, *params.Error) { return r.Result, r.Error }))
}

// RemovePool removes a storage pool that no volume is in.
func (c *Client) RemovePool(ctx context.Context, name string) error {
	var r params.ErrorResults
	args := params.StoragePoolDeleteArgs{Pools: []params.StoragePoolDeleteArg{{Name: name}}}
	if err := c.call(ctx, "RemovePool", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
