package state

import (
	"context"

	"github.com/slipway-project/slipway/store"
)

// Step is an upgrade that only a test knows.
type Step struct {
	To    int
	Build func(ctx context.Context, s store.Store) ([]store.Op, error)
}

// UpgradeWith is Upgrade with further steps after those that there are.
func UpgradeWith(ctx context.Context, s store.Store, more ...Step) error {
	steps := upgrades()
	for _, m := range more {
		steps = append(steps, upgrade{m.To, "a test's", m.Build})
	}
	return upgradeWith(ctx, s, steps)
}

// HoldHashing takes every place at which passwords are hashed until release is
// called.
func (c *Controller) HoldHashing() (release func()) {
	for range cap(c.hashing) {
		c.hashing <- struct{}{}
	}
	return func() {
		for range cap(c.hashing) {
			<-c.hashing
		}
	}
}

// VouchedFor is vouchedFor.
func (u *User) VouchedFor(password, ticket string) (bool, error) {
	return u.vouchedFor(password, ticket)
}
