package provision

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/image"
)

// reportTimeout bounds the reports around a step; the provider has retries of its own.
const reportTimeout = 2 * time.Minute

// run runs a list from where the checkpoint says. what names it in messages.
func (o *Orchestrator) run(ctx context.Context, what string, steps []plannedStep) (err error) {
	o.total = len(steps)
	stop := o.heartbeats(ctx)
	defer stop()
	for i, s := range steps {
		if o.save.done(s.Name) && !s.Rerun {
			logger.Infof("%s step %s: done before", what, s.Name)
			continue
		}
		if err := o.step(ctx, i+1, s); err != nil {
			err = errors.Annotatef(err, "step %s", s.Name)
			o.failed(ctx, what, s, err)
			return err
		}
		if err := o.save.mark(s.Name); err != nil {
			logger.Warningf("%v", err)
		}
	}
	if err := o.save.remove(); err != nil {
		logger.Warningf("%v", err)
	}
	return nil
}

// step runs one step with its retries, and reports how each try ended.
func (o *Orchestrator) step(ctx context.Context, number int, s plannedStep) error {
	if s.Skip != nil {
		if why := s.Skip(); why != "" {
			logger.Infof("step %s: skipped, %s", s.Name, why)
			return o.stepReport(ctx, config.Status{Step: s.Name, Number: number, Try: 1, Result: "skipped", Message: why})
		}
	}
	for try := 1; ; try++ {
		start := time.Now()
		err := try1(ctx, s)
		status := config.Status{Step: s.Name, Number: number, Try: try, Result: "done", Millis: time.Since(start).Milliseconds()}
		if err == nil {
			logger.Infof("step %s: done in %v", s.Name, time.Since(start).Round(time.Millisecond))
			if s.Silent {
				return nil
			}
			return o.stepReport(ctx, status)
		}
		status.Message = config.Redact(err.Error())
		status.Result = "failed"
		again := try <= s.Retries && !final(err) && ctx.Err() == nil
		if again {
			status.Result = "retrying"
		}
		logger.Warningf("step %s: try %d of %d: %v", s.Name, try, s.Retries+1, status.Message)
		if rerr := o.stepReport(ctx, status); rerr != nil {
			return rerr
		}
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case <-time.After(backoff(try+1, rand.Float64())):
		}
	}
}

// try1 runs one try within its time limit.
func try1(ctx context.Context, s plannedStep) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, errors.Timeoutf("step %s after %v", s.Name, s.Timeout))
	defer cancel()
	err := s.Fn(ctx)
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != ctx.Err() {
			return errors.Annotatef(cause, "%v", err)
		}
	}
	return err
}

// final reports whether another try cannot help.
func final(err error) bool {
	for _, kind := range []error{ErrFinal, config.ErrRefused, image.ErrMismatch, image.ErrTooLarge, errors.NotValid, errors.NotSupported, errors.Unauthorized} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// stepReport reports the end of one try. Only a refusal is an error: it says that
// the controller has given the machine to another run, so this one must stop.
func (o *Orchestrator) stepReport(ctx context.Context, s config.Status) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	s.State = config.StateStep
	err := o.report(ctx, s)
	if errors.Is(err, config.ErrRefused) {
		return err
	}
	if err != nil {
		logger.Warningf("step %s is not reported: %v", s.Step, err)
	}
	return nil
}

// failed cleans up after a failed step and tells everyone. It works although ctx
// may be done.
func (o *Orchestrator) failed(ctx context.Context, what string, s plannedStep, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	logger.Errorf("%s: %v", what, config.Redact(err.Error()))
	dumper{o.disk.Commander()}.dump(ctx, s.Name, s.Dump)
	if uerr := o.unmountAll(ctx); uerr != nil {
		logger.Errorf("after the failure: %v", uerr)
	}
	if serr := o.save.fail(err); serr != nil {
		logger.Warningf("%v", serr)
	}
	logger.Infof("config was %s", o.cfg)
	rerr := o.report(ctx, config.Status{State: config.StateError, Step: s.Name, Message: config.Redact(err.Error())})
	if rerr != nil {
		logger.Errorf("the failure is not reported: %v", rerr)
	}
}

// unmountAll unmounts what steps have mounted, last first. What cannot be unmounted
// stays in the facts, so that no wipe begins on it.
func (o *Orchestrator) unmountAll(ctx context.Context) error {
	f := o.facts()
	var first error
	var left []string
	for _, dir := range slices.Backward(f.Mounts) {
		if err := o.disk.Unmount(ctx, dir); err != nil {
			left = append(left, dir)
			if first == nil {
				first = err
			}
		}
	}
	slices.Reverse(left)
	f.Mounts = left
	return first
}

// mount mounts and remembers it for unmountAll.
func (o *Orchestrator) mount(ctx context.Context, source, dir, fs, options string) error {
	if slices.Contains(o.facts().Mounts, dir) {
		return nil
	}
	if err := o.disk.Mount(ctx, source, dir, fs, options); err != nil {
		return err
	}
	o.facts().Mounts = append(o.facts().Mounts, dir)
	return nil
}

// heartbeats tells the controller that the machine is alive until the returned
// function is called, which waits for the last one to end.
func (o *Orchestrator) heartbeats(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(o.opts.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := o.provider.Heartbeat(ctx); err != nil && ctx.Err() == nil {
				logger.Debugf("heartbeat: %v", err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
