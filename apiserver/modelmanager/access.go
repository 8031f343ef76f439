package modelmanager

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// ModifyModelAccess gives users access to models, or takes it. Who loses some
// is disconnected: what a connection may do is decided when it is made.
func (m *ModelManager) ModifyModelAccess(ctx context.Context, args params.ModifyModelAccessRequest) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Changes))
	for i, c := range args.Changes {
		results[i].Error = common.ServerError(m.modifyAccess(ctx, c))
	}
	return params.ErrorResults{Results: results}, nil
}

func (m *ModelManager) modifyAccess(ctx context.Context, c params.ModifyModelAccess) error {
	model, err := m.find(ctx, c.ModelTag, access.Admin)
	if err != nil {
		return err
	}
	user, err := tag.ParseUserTag(c.UserTag)
	if err != nil {
		return err
	}
	level, err := access.ParseModel(c.Access)
	if err != nil {
		return err
	}
	switch c.Action {
	case params.GrantAccess:
		return model.Grant(ctx, user.Id(), level)
	case params.RevokeAccess:
		if err := model.Revoke(ctx, user.Id(), level); err != nil {
			return errors.Trace(err)
		}
		m.sessions.DropUser(user)
		return nil
	}
	return errors.NotValidf("action %q (want grant or revoke)", c.Action)
}
