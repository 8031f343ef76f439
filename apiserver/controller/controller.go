// Package controller is the facade Controller, version 3: the site as a whole, for
// superusers.
package controller

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	// User returns a user, or an error satisfying errors.NotFound.
	User(ctx context.Context, name string) (User, error)
}

// User is a person who may log in.
type User interface {
	Access() access.Controller
	SetAccess(ctx context.Context, level access.Controller) error
}

// Controller is the facade of one connection.
type Controller struct {
	backend  Backend
	auth     common.Authorizer
	sessions common.Sessions
}

// newController returns the facade, or ErrPerm if the caller is no superuser.
func newController(backend Backend, c common.Connection) (*Controller, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ControllerAccess().Includes(access.Superuser) {
		return nil, common.ErrPerm
	}
	return &Controller{backend, c.Auth, c.Sessions}, nil
}

// ModifyControllerAccess gives users access to the site, or takes some of it: all
// but login, since who may not log in is disabled instead. Who loses some is
// disconnected, and nobody can take their own.
func (c *Controller) ModifyControllerAccess(ctx context.Context, args params.ModifyControllerAccessRequest) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Changes))
	for i, change := range args.Changes {
		results[i].Error = common.ServerError(c.modify(ctx, change))
	}
	return params.ErrorResults{Results: results}, nil
}

func (c *Controller) modify(ctx context.Context, change params.ModifyControllerAccess) error {
	t, err := tag.ParseUserTag(change.UserTag)
	if err != nil {
		return err
	}
	level, err := access.ParseController(change.Access)
	if err != nil {
		return err
	}
	user, err := c.backend.User(ctx, t.Id())
	if err != nil {
		return err
	}
	has := user.Access().Includes(level)
	switch change.Action {
	case params.GrantAccess:
		if has {
			return errors.AlreadyExistsf("user %s with %s access or greater", t.Id(), level)
		}
		return user.SetAccess(ctx, level)
	case params.RevokeAccess:
	default:
		return errors.NotValidf("action %q (want grant or revoke)", change.Action)
	}
	below := map[access.Controller]access.Controller{access.Superuser: access.AddModel, access.AddModel: access.Login}[level]
	switch {
	case below == "":
		return errors.NotValidf("revoking login access (disable the user instead):")
	case !has:
		return errors.NotFoundf("%s access of user %s", level, t.Id())
	case common.AuthOwner(c.auth, t):
		return errors.NotValidf("revoking one's own access")
	}
	if err := user.SetAccess(ctx, below); err != nil {
		return errors.Trace(err)
	}
	c.sessions.DropUser(t)
	return nil
}
