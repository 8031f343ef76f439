// Package annotations is the facade Annotations, version 2: notes of people about
// machines and the model. People who may read the model see them; those who may write
// change them.
package annotations

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// Backend is what the facade needs from below.
type Backend interface {
	Get(ctx context.Context, t tag.Tag) (map[string]string, error)
	Set(ctx context.Context, t tag.Tag, changes map[string]string) error
}

// Annotations is the facade of one connection.
type Annotations struct {
	backend Backend
	auth    common.Authorizer
}

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Annotations, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	return &Annotations{st.Annotations(), c.Auth}, nil
}

// Get returns the annotations of entities.
func (a *Annotations) Get(ctx context.Context, args params.Entities) (params.AnnotationsGetResults, error) {
	results := make([]params.AnnotationsGetResult, len(args.Entities))
	for i, e := range args.Entities {
		results[i].EntityTag = e.Tag
		t, err := tag.ParseTag(e.Tag)
		if err == nil {
			results[i].Annotations, err = a.backend.Get(ctx, t)
		}
		results[i].Error.Error = common.ServerError(err)
	}
	return params.AnnotationsGetResults{Results: results}, nil
}

// Set changes annotations of entities; an empty value removes one.
func (a *Annotations) Set(ctx context.Context, args params.AnnotationsSet) (params.ErrorResults, error) {
	if !a.auth.ModelAccess().Includes(access.Write) {
		return params.ErrorResults{}, common.ErrPerm
	}
	results := make([]params.ErrorResult, len(args.Annotations))
	for i, e := range args.Annotations {
		t, err := tag.ParseTag(e.EntityTag)
		if err == nil {
			err = a.backend.Set(ctx, t, e.Annotations)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}, nil
}
