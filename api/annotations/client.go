// Package annotations asks the facade Annotations, version 2: notes of people
// about machines and the model.
package annotations

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
	return rpc.Request{Type: "Annotations", Version: 2, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// Get returns the annotations of entities, given by tag.
func (c *Client) Get(ctx context.Context, tags ...string) ([]api.Result[map[string]string], error) {
	args := params.Entities{Entities: make([]params.Entity, len(tags))}
	for i, t := range tags {
		args.Entities[i].Tag = t
	}
	var r params.AnnotationsGetResults
	if err := c.call(ctx, "Get", args, &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(tags), func(r *params.AnnotationsGetResult) (map[string]string, *params.Error) {
		return r.Annotations, r.Error.Error
	})
}

// Set changes annotations of one entity, given by tag; an empty value removes
// one.
func (c *Client) Set(ctx context.Context, tag string, changes map[string]string) error {
	var r params.ErrorResults
	args := params.AnnotationsSet{Annotations: []params.EntityAnnotations{{EntityTag: tag, Annotations: changes}}}
	if err := c.call(ctx, "Set", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
