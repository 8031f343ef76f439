// Package controller is the facade Controller, versions 3 and 5: the site as a
// whole. Most of it is for superusers. Version 5 is version 3 with ConfigSet.
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

// Controller is what changes who may do what. The facade has more.
type Controller struct {
	backend  Backend
	auth     common.Authorizer
	sessions common.Sessions
}

// newController returns its part of the facade, or ErrPerm if the caller is no
// person.
func newController(backend Backend, c common.Connection) (*Controller, error) {
	if !common.AuthClient(c.Auth) {
		return nil, common.ErrPerm
	}
	return &Controller{backend, c.Auth, c.Sessions}, nil
}

// superuser returns ErrPerm unless the caller is one.
func (c *Controller) superuser() error {
	if !c.auth.ControllerAccess().Includes(access.Superuser) {
		return common.ErrPerm
	}
	return nil
}

// ModifyControllerAccess gives users access to the site, or takes some of it: all
// but login, since who may not log in is disabled instead. Who loses some is
// disconnected, and nobody can take their own. It is for superusers.
func (c *Controller) ModifyControllerAccess(ctx context.Context, args params.ModifyControllerAccessRequest) (params.ErrorResults, error) {
	if err := c.superuser(); err != nil {
		return params.ErrorResults{}, err
	}
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
