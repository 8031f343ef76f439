// Package usermanager asks the UserManager facade, version 1: the people who
// may use a controller.
package usermanager

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
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "UserManager", Version: 1, Method: method}, args, result))
}

// Add adds a user and returns its tag.
func (c *Client) Add(ctx context.Context, user params.AddUser) (string, error) {
	var r params.AddUserResults
	if err := c.call(ctx, "AddUser", params.AddUsers{Users: []params.AddUser{user}}, &r); err != nil {
		return "", err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.AddUserResult) (string, *params.Error) {
		return r.Tag, r.Error
	}))
}

// Info describes users, given by tag; no tags mean all users.
func (c *Client) Info(ctx context.Context, tags ...string) ([]api.Result[params.UserInfo], error) {
	args := params.UserInfoRequest{Entities: make([]params.Entity, len(tags)), IncludeDisabled: true}
	for i, tag := range tags {
		args.Entities[i].Tag = tag
	}
	var r params.UserInfoResults
	if err := c.call(ctx, "UserInfo", args, &r); err != nil {
		return nil, err
	}
	want := len(tags)
	if want == 0 {
		want = len(r.Results)
	}
	return api.ResultsOf(r.Results, want, func(r *params.UserInfoResult) (params.UserInfo, *params.Error) {
		if r.Result == nil {
			return params.UserInfo{}, r.Error
		}
		return *r.Result, r.Error
	})
}

// SetPassword sets the password of a user, given by tag.
func (c *Client) SetPassword(ctx context.Context, tag string, password params.Secret) error {
	args := params.EntityPasswords{Changes: []params.EntityPassword{{Tag: tag, Password: password}}}
	var r params.ErrorResults
	if err := c.call(ctx, "SetPassword", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// Disable keeps a user, given by tag, from logging in, and ends the user's
// connections.
func (c *Client) Disable(ctx context.Context, tag string) error {
	return c.change(ctx, "DisableUser", tag)
}

// Enable lets a user, given by tag, log in again.
func (c *Client) Enable(ctx context.Context, tag string) error {
	return c.change(ctx, "EnableUser", tag)
}

func (c *Client) change(ctx context.Context, method, tag string) error {
	var r params.ErrorResults
	if err := c.call(ctx, method, params.Entities{Entities: []params.Entity{{Tag: tag}}}, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
