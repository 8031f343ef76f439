// Package block is the facade Block, version 2: operations that are switched off in a
// model. People who may read the model see them; those who may write switch them.
package block

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// Backend is what the facade needs from below.
type Backend interface {
	// All returns the messages of the blocks that are on, by kind.
	All(ctx context.Context) (map[string]string, error)
	SwitchOn(ctx context.Context, kind, message string) error
	SwitchOff(ctx context.Context, kind string) error
}

// Block is the facade of one connection.
type Block struct {
	backend Backend
	model   string
	auth    common.Authorizer
}

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Block, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	return &Block{st.Blocks(), tag.NewModelTag(st.ModelUUID()).String(), c.Auth}, nil
}

// List returns the blocks that are on.
func (b *Block) List(ctx context.Context) (params.BlockResults, error) {
	on, err := b.backend.All(ctx)
	if err != nil {
		return params.BlockResults{}, errors.Trace(err)
	}
	var out params.BlockResults
	for i, kind := range slices.Sorted(maps.Keys(on)) {
		out.Results = append(out.Results, params.BlockResult{Result: params.Block{
			ID: strconv.Itoa(i), Tag: b.model, Type: kind, Message: on[kind],
		}})
	}
	return out, nil
}

// SwitchBlockOn switches a kind of operation off.
func (b *Block) SwitchBlockOn(ctx context.Context, args params.BlockSwitchParams) (params.ErrorResult, error) {
	if !b.auth.ModelAccess().Includes(access.Write) {
		return params.ErrorResult{}, common.ErrPerm
	}
	return params.ErrorResult{Error: common.ServerError(b.backend.SwitchOn(ctx, args.Type, args.Message))}, nil
}

// SwitchBlockOff switches a kind of operation on again.
func (b *Block) SwitchBlockOff(ctx context.Context, args params.BlockSwitchParams) (params.ErrorResult, error) {
	if !b.auth.ModelAccess().Includes(access.Write) {
		return params.ErrorResult{}, common.ErrPerm
	}
	return params.ErrorResult{Error: common.ServerError(b.backend.SwitchOff(ctx, args.Type))}, nil
}
