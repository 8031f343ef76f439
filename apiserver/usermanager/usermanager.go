// Package usermanager is the facade UserManager, version 1: the people who may
// log in. Superusers manage all of them; everybody else sees only themselves and
// may change their own password.
package usermanager

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	// Add adds a user who may log in.
	Add(ctx context.Context, u NewUser) (User, error)
	// Get returns a user, or an error satisfying errors.NotFound.
	Get(ctx context.Context, name string) (User, error)
	// All returns every user, by name.
	All(ctx context.Context) ([]User, error)
}

// NewUser is a user to add. Who has no password cannot log in until it is set.
type NewUser struct {
	Name, DisplayName string
	Password          params.Secret
	CreatedBy         string
}

// User is a person who may log in, as when it was read.
type User interface {
	Described
	SetPassword(ctx context.Context, password string) error
	Disable(ctx context.Context) error
	Enable(ctx context.Context) error
	LastLogin(ctx context.Context) (time.Time, error)
}

// Described is who a user is.
type Described interface {
	Tag() tag.Tag
	Names() (name, display, createdBy string)
	Created() time.Time
	IsDisabled() bool
	Access() access.Controller
}

// UserManager is the facade of one connection.
type UserManager struct {
	backend  Backend
	auth     common.Authorizer
	sessions common.Sessions
}

// newUserManager returns the facade, or ErrPerm if the caller is no person.
func newUserManager(backend Backend, c common.Connection) (*UserManager, error) {
	if !common.AuthClient(c.Auth) {
		return nil, common.ErrPerm
	}
	return &UserManager{backend, c.Auth, c.Sessions}, nil
}

func (m *UserManager) superuser() bool {
	return m.auth.ControllerAccess().Includes(access.Superuser)
}

// AddUser adds users.
func (m *UserManager) AddUser(ctx context.Context, args params.AddUsers) (params.AddUserResults, error) {
	if !m.superuser() {
		return params.AddUserResults{}, common.ErrPerm
	}
	results := make([]params.AddUserResult, len(args.Users))
	for i, a := range args.Users {
		u, err := m.backend.Add(ctx, NewUser{a.UserName, a.DisplayName, a.Password, m.auth.AuthTag().Id()})
		if err != nil {
			results[i].Error = common.ServerError(err)
			continue
		}
		results[i].Tag = u.Tag().String()
	}
	return params.AddUserResults{Results: results}, nil
}

// UserInfo describes users: those that are named, or all that the caller may
// see.
func (m *UserManager) UserInfo(ctx context.Context, args params.UserInfoRequest) (params.UserInfoResults, error) {
	if len(args.Entities) == 0 {
		return m.allInfo(ctx, args.IncludeDisabled)
	}
	results := make([]params.UserInfoResult, len(args.Entities))
	for i, e := range args.Entities {
		u, err := m.find(ctx, e.Tag)
		if err == nil {
			results[i].Result, err = m.info(ctx, u)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.UserInfoResults{Results: results}, nil
}

func (m *UserManager) allInfo(ctx context.Context, disabled bool) (params.UserInfoResults, error) {
	all, err := m.backend.All(ctx)
	if err != nil {
		return params.UserInfoResults{}, errors.Trace(err)
	}
	results := []params.UserInfoResult{}
	for _, u := range all {
		if u.IsDisabled() && !disabled || !m.superuser() && !common.AuthOwner(m.auth, u.Tag()) {
			continue
		}
		info, err := m.info(ctx, u)
		results = append(results, params.UserInfoResult{Result: info, Error: common.ServerError(err)})
	}
	return params.UserInfoResults{Results: results}, nil
}

func (m *UserManager) info(ctx context.Context, u User) (*params.UserInfo, error) {
	last, err := u.LastLogin(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	name, display, createdBy := u.Names()
	return &params.UserInfo{
		UserName: name, DisplayName: display, Access: string(u.Access()), CreatedBy: createdBy,
		DateCreated: u.Created(), LastConnection: common.Since(last), Disabled: u.IsDisabled(),
	}, nil
}

// find returns the user that a tag names, if the caller may see that user.
func (m *UserManager) find(ctx context.Context, text string) (User, error) {
	t, err := tag.ParseUserTag(text)
	if err != nil {
		return nil, err
	}
	if !m.superuser() && !common.AuthOwner(m.auth, t) {
		return nil, common.ErrPerm
	}
	u, err := m.backend.Get(ctx, t.Id())
	if errors.Is(err, errors.NotFound) {
		return nil, errors.WithType(err, errors.UserNotFound)
	}
	return u, err
}

// SetPassword gives users new passwords, for logins from now on.
func (m *UserManager) SetPassword(ctx context.Context, args params.EntityPasswords) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Changes))
	for i, c := range args.Changes {
		u, err := m.find(ctx, c.Tag)
		if err == nil {
			err = u.SetPassword(ctx, string(c.Password))
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}, nil
}

// DisableUser keeps users from logging in, and ends their connections.
func (m *UserManager) DisableUser(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	return m.each(ctx, args, func(u User) error {
		if common.AuthOwner(m.auth, u.Tag()) {
			return errors.New("cannot disable oneself")
		}
		if err := u.Disable(ctx); err != nil {
			return errors.Trace(err)
		}
		m.sessions.DropUser(u.Tag())
		return nil
	})
}

// EnableUser lets users log in again.
func (m *UserManager) EnableUser(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	return m.each(ctx, args, func(u User) error { return u.Enable(ctx) })
}

// each does something to users, which only superusers may.
func (m *UserManager) each(ctx context.Context, args params.Entities, do func(u User) error) (params.ErrorResults, error) {
	if !m.superuser() {
		return params.ErrorResults{}, common.ErrPerm
	}
	results := make([]params.ErrorResult, len(args.Entities))
	for i, e := range args.Entities {
		u, err := m.find(ctx, e.Tag)
		if err == nil {
			err = do(u)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}, nil
}
