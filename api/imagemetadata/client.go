// Package imagemetadata asks the facade ImageMetadata, version 2: the images that
// machines of a model can be started from.
package imagemetadata

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
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "ImageMetadata", Version: 2, Method: method}, args, result))
}

// List returns the images that a filter lets pass, the lowest priority first.
func (c *Client) List(ctx context.Context, f params.ImageMetadataFilter) ([]params.CloudImageMetadata, error) {
	var r params.ListCloudImageMetadataResult
	err := c.call(ctx, "List", f, &r)
	return r.Result, err
}

// Save adds images, all or none.
func (c *Client) Save(ctx context.Context, images ...params.CloudImageMetadata) error {
	var r params.ErrorResults
	args := params.MetadataSaveParams{Metadata: []params.CloudImageMetadataList{{Metadata: images}}}
	if err := c.call(ctx, "Save", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// Delete removes every image with an id.
func (c *Client) Delete(ctx context.Context, id string) error {
	var r params.ErrorResults
	if err := c.call(ctx, "Delete", params.MetadataImageIDs{IDs: []string{id}}, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
