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
