package common

import (
	"context"

	"github.com/slipway-project/slipway/params"
)

// PasswordSetter is what PasswordChanger needs of an entity.
type PasswordSetter interface {
	SetPassword(ctx context.Context, password string) error
}

// PasswordChanger gives a facade the method SetPasswords.
type PasswordChanger struct{ bulk Bulk[PasswordSetter] }

// NewPasswordChanger returns a PasswordChanger for the entities that canModify
// allows.
func NewPasswordChanger(get EntityGetter[PasswordSetter], canModify GetAuthFunc) *PasswordChanger {
	return &PasswordChanger{Bulk[PasswordSetter]{Get: get, Can: canModify, Fresh: true}}
}

// SetPasswords gives each entity a new password, for logins from now on.
func (c *PasswordChanger) SetPasswords(ctx context.Context, args params.EntityPasswords) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Changes))
	err := c.bulk.Do(ctx, len(results), func(i int) string { return args.Changes[i].Tag }, func(i int, e PasswordSetter) error {
		return e.SetPassword(ctx, string(args.Changes[i].Password))
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
