// Package controller asks the Controller facade, version 3: the site as a whole.
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

// ModifyAccess gives or takes, as action says, access of a user, given by tag, to
// the site.
func (c *Client) ModifyAccess(ctx context.Context, userTag, action, level string) error {
	args := params.ModifyControllerAccessRequest{Changes: []params.ModifyControllerAccess{{UserTag: userTag, Action: action, Access: level}}}
	var r params.ErrorResults
	err := c.caller.Call(ctx, rpc.Request{Type: "Controller", Version: 3, Method: "ModifyControllerAccess"}, args, &r)
	if err != nil {
		return errors.Trace(err)
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
