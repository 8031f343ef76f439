package machineagent

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
)

// Try finds out whether the agent that cfg describes could work: it logs in and
// asks for the machine's life, again and again until that succeeds or ctx is
// done. It changes nothing, here or at the controller, so that another agent of
// the machine may run meanwhile.
func Try(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	a := &Agent{cfg: cfg}
	for failures := 1; ; failures++ {
		if err = a.try(ctx); err == nil {
			return nil
		}
		if ctx.Err() == nil {
			a.log.say(err)
		}
		timer := time.NewTimer(cfg.Backoff.Delay(failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Annotate(err, "cannot log in")
		case <-timer.C:
		}
	}
}

// try tries once.
func (a *Agent) try(ctx context.Context) error {
	file, err := agentfile.Read(a.cfg.AgentFile)
	if err != nil {
		return errors.Trace(err)
	}
	l, err := a.logIn(ctx, &file)
	if err != nil {
		return errors.Trace(err)
	}
	defer l.Close()
	_, err = l.Life(ctx)
	return errors.Trace(err)
}
