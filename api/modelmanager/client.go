// Package modelmanager asks the ModelManager facade, version 2: the models of a
// controller.
package modelmanager

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
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "ModelManager", Version: 2, Method: method}, args, result))
}

// List returns the models that a user, given by tag, may see.
func (c *Client) List(ctx context.Context, userTag string) ([]params.UserModel, error) {
	var r params.UserModelList
	err := c.call(ctx, "ListModels", params.Entity{Tag: userTag}, &r)
	return r.UserModels, err
}

// Create makes a model for a user, given by tag.
func (c *Client) Create(ctx context.Context, name, ownerTag string, config map[string]any) (params.ModelInfo, error) {
	var r params.ModelInfo
	err := c.call(ctx, "CreateModel", params.ModelCreateArgs{Name: name, OwnerTag: ownerTag, Config: config}, &r)
	return r, err
}

// Destroy begins to remove models, given by UUID.
func (c *Client) Destroy(ctx context.Context, uuids ...string) ([]error, error) {
	var r params.ErrorResults
	if err := c.call(ctx, "DestroyModels", models(uuids), &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(uuids))
}

// Info describes models, given by UUID.
func (c *Client) Info(ctx context.Context, uuids ...string) ([]api.Result[params.ModelInfo], error) {
	var r params.ModelInfoResults
	if err := c.call(ctx, "ModelInfo", models(uuids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(uuids), func(r *params.ModelInfoResult) (params.ModelInfo, *params.Error) {
		if r.Result == nil {
			return params.ModelInfo{}, r.Error
		}
		return *r.Result, r.Error
	})
}

// ModifyAccess gives or takes, as action says, access of a user, given by tag, to
// models, given by UUID.
func (c *Client) ModifyAccess(ctx context.Context, userTag, action, level string, uuids ...string) ([]error, error) {
	args := params.ModifyModelAccessRequest{Changes: make([]params.ModifyModelAccess, len(uuids))}
	for i, e := range models(uuids).Entities {
		args.Changes[i] = params.ModifyModelAccess{UserTag: userTag, Action: action, Access: level, ModelTag: e.Tag}
	}
	var r params.ErrorResults
	if err := c.call(ctx, "ModifyModelAccess", args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(uuids))
}

func models(uuids []string) params.Entities {
	out := params.Entities{Entities: make([]params.Entity, len(uuids))}
	for i, uuid := range uuids {
		out.Entities[i].Tag = "model-" + uuid
	}
	return out
}
