package store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/juju/errors"
)

// ErrContention says that a batch met a conflict at every one of its attempts.
const ErrContention = errors.ConstError("state changing too quickly; try again soon")

// maxAttempts bounds how often Run builds a batch. With the waits between, that
// is about three seconds.
const maxAttempts = 40

// Run applies all the operations that build returns, or none. It calls build
// again, with the next attempt number from 0, whenever an assertion does not
// hold; build then reads afresh, and may give up with an error, which Run
// returns as it is. No operations mean that there is nothing to do. Run returns
// an error satisfying errors.Is(err, ErrContention) when no attempt succeeds.
func Run(ctx context.Context, s Store, build func(attempt int) ([]Op, error)) error {
	for attempt := range maxAttempts {
		ops, err := build(attempt)
		if err != nil {
			return err
		}
		if len(ops) == 0 {
			return nil
		}
		err = s.Apply(ctx, ops)
		if err == nil || !errors.Is(err, ErrConflict) {
			return err
		}
		if attempt < 2 {
			continue // most conflicts are gone at once
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	return ErrContention
}

// pause waits a random time that grows with the attempt, at most 100 ms.
func pause(ctx context.Context, attempt int) error {
	limit := min(time.Duration(1)<<min(attempt, 7)*time.Millisecond, 100*time.Millisecond)
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case <-timer.C:
		return nil
	}
}
