package site

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/state"
)

// cleaner does the work that was asked for and is done later: it ends machines
// by force, removes those that are marked, and sees dying models out.
type cleaner struct {
	tomb tomb.Tomb
	work *state.Cleanups
}

// newCleaner starts a cleaner.
func newCleaner(work *state.Cleanups) *cleaner {
	c := &cleaner{work: work}
	c.tomb.Go(c.loop)
	return c
}

// Kill asks the cleaner to stop.
func (c *cleaner) Kill() { c.tomb.Kill(nil) }

// Wait returns when the cleaner has stopped.
func (c *cleaner) Wait() error { return c.tomb.Wait() }

// loop runs what there is to do, when something comes and when it is due.
func (c *cleaner) loop() error {
	w := c.work.Watch()
	defer func() {
		w.Kill()
		_ = w.Wait() // it ends with the state
	}()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-c.tomb.Dying():
			return nil
		case _, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "clean-up watcher ended")
			}
		case <-due.C:
		}
		next, err := c.work.Run(c.tomb.Context(nil), time.Now())
		if err != nil && !errors.Is(err, context.Canceled) {
			logger.Warningf("clean-up not finished, going on later: %v", err)
		}
		due.Stop()
		if !next.IsZero() {
			due.Reset(max(time.Until(next), 10*time.Millisecond))
		}
	}
}
