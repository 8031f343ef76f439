package controller

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// ListBlockedModels returns the models in which operations are switched off, for
// superusers.
func (c *V3) ListBlockedModels(ctx context.Context) (params.ModelBlockInfoList, error) {
	if err := c.superuser(); err != nil {
		return params.ModelBlockInfoList{}, err
	}
	all, err := c.reads.Blocked(ctx)
	if err != nil {
		return params.ModelBlockInfoList{}, errors.Trace(err)
	}
	var out params.ModelBlockInfoList
	for _, b := range all {
		out.Models = append(out.Models, params.ModelBlockInfo{
			Name: b.Name(), UUID: b.UUID(), OwnerTag: tag.UserKind + "-" + b.Owner(), Blocks: b.Kinds,
		})
	}
	return out, nil
}

// RemoveBlocks switches everything on again, in all models, for superusers.
func (c *V3) RemoveBlocks(ctx context.Context, args params.RemoveBlocksArgs) error {
	if err := c.superuser(); err != nil {
		return err
	}
	if !args.All {
		return errors.NewNotValid(nil, "only all blocks can be removed: set all")
	}
	all, err := c.reads.Blocked(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	for _, b := range all {
		if err := c.reads.Unblock(ctx, b.UUID()); err != nil {
			return errors.Annotatef(err, "model %q", b.Name())
		}
	}
	return nil
}
