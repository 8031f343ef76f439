// Package controller asks the Controller facade, version 5: the site as a whole.
package controller

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

// New returns a client that uses a connection to a controller.
func New(c api.Caller) *Client { return &Client{caller: c} }

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "Controller", Version: 5, Method: method}, args, result))
}

// Config returns the settings of the site.
func (c *Client) Config(ctx context.Context) (map[string]any, error) {
	var r params.ModelConfigResult
	err := c.call(ctx, "ControllerConfig", nil, &r)
	return r.Config, err
}

// SetConfig changes settings of the site, all or none.
func (c *Client) SetConfig(ctx context.Context, settings map[string]any) error {
	return c.call(ctx, "ConfigSet", params.ControllerConfigSet{Config: settings}, nil)
}

// ModifyAccess gives or takes, as action says, access of a user, given by tag, to
// the site.
func (c *Client) ModifyAccess(ctx context.Context, userTag, action, level string) error {
	args := params.ModifyControllerAccessRequest{Changes: []params.ModifyControllerAccess{{UserTag: userTag, Action: action, Access: level}}}
	var r params.ErrorResults
	if err := c.call(ctx, "ModifyControllerAccess", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// BlockedModels returns the models in which operations are switched off.
func (c *Client) BlockedModels(ctx context.Context) ([]params.ModelBlockInfo, error) {
	var r params.ModelBlockInfoList
	err := c.call(ctx, "ListBlockedModels", nil, &r)
	return r.Models, err
}

// RemoveBlocks switches everything on again, in all models.
func (c *Client) RemoveBlocks(ctx context.Context) error {
	return c.call(ctx, "RemoveBlocks", params.RemoveBlocksArgs{All: true}, nil)
}

// Deltas are changes of models and machines. The first event holds everything
// there is.
type Deltas = api.Stream[[]params.Delta]

// WatchAllModels follows every change in all models.
func (c *Client) WatchAllModels(ctx context.Context) (*Deltas, error) {
	var r params.AllWatcherID
	if err := c.call(ctx, "WatchAllModels", nil, &r); err != nil {
		return nil, err
	}
	return api.NewStream(api.StreamConfig[[]params.Delta]{
		Caller: c.caller, Facade: "AllModelWatcher", Version: 2, ID: r.WatcherID,
		Next: func(call func(any) error) ([]params.Delta, error) {
			var next params.AllWatcherNextResults
			err := call(&next)
			return next.Deltas, err
		},
	}), nil
}
