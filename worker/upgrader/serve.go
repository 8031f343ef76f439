package upgrader

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/provisioner"
	apiupgrader "github.com/slipway-project/slipway/api/upgrader"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// Connection is a connection of the machine's agent that is logged in.
type Connection interface {
	api.Caller
	Addrs() []string // of the controllers, host:port each; the one in use comes first
}

// controller is what the agent learns of versions.
type controller interface {
	Watch(ctx context.Context) (watcher.NotifyWatcher, error)
	Desired(ctx context.Context) (apiupgrader.Desired, error)
	Tools(ctx context.Context) ([]params.Tools, error)
	SetTools(ctx context.Context, version string) error
}

// session is the work over one connection.
type session struct {
	*Upgrader
	controller
	own   binaries.Version
	addrs []string
}

// Serve reports which version runs, and follows which should, until ctx is done.
// It tells what keeps the agent from it, and an empty text when nothing does. Its
// error is worker.ErrRestart once Program is another one.
func (u *Upgrader) Serve(ctx context.Context, c Connection, machineID string, tell func(string)) error {
	series, err := api.One(provisioner.New(c).Series(ctx, machineID))
	if err != nil {
		return errors.Annotate(err, "cannot get the machine's series")
	}
	own := binaries.Version{Number: u.own, Series: series, Arch: architecture()}
	if _, err := binaries.Parse(own.String()); err != nil { // it names folders that are made and removed
		text := fmt.Sprintf("the agent cannot upgrade itself on a machine of series %q, which is none", series)
		logger.Warningf("%s", text)
		tell(text)
		<-ctx.Done()
		return ctx.Err()
	}
	s := &session{Upgrader: u, controller: apiupgrader.New(c, machineID), addrs: c.Addrs(), own: own}
	return s.follow(ctx, tell)
}

// follow does what Serve says.
func (s *session) follow(ctx context.Context, tell func(string)) error {
	if err := s.SetTools(ctx, s.own.String()); err != nil {
		return errors.Annotate(err, "cannot report the agent's version")
	}
	w, err := s.Watch(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot watch which version to run")
	}
	defer func() { w.Kill(); _ = w.Wait() }() // its end is no news
	told, failures := "", 0
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "cannot watch which version to run")
			}
			failures = 0
		case <-again:
		}
		again = nil
		problem, err := s.consider(ctx)
		if err != nil {
			return err
		}
		if problem.text != told {
			told = problem.text
			tell(told)
			if told != "" {
				logger.Warningf("%s", told)
			}
		}
		if problem.passes {
			failures++
			again = time.After(s.cfg.Backoff.Delay(failures))
		}
	}
}

// problem is what keeps the agent from the version that it should run; zero if
// nothing does.
type problem struct {
	text   string
	passes bool // it is worth trying again
}

// consider finds out which version should run, and changes to it.
func (s *session) consider(ctx context.Context) (problem, error) {
	desired, err := s.Desired(ctx)
	if err != nil {
		return problem{}, errors.Annotate(err, "cannot get which version to run")
	}
	if desired.Number == "" {
		return problem{}, nil
	}
	number, err := binaries.ParseNumber(desired.Number)
	if err != nil {
		return problem{}, errors.Trace(err)
	}
	older := number.Compare(s.own.Number)
	if older == 0 {
		return problem{}, nil
	}
	if older < 0 && !desired.Downgrade {
		logger.Infof("the agent stays at version %s, although it should run %s: going back has to be asked for", s.own.Number, number)
		return problem{}, nil
	}
	want := s.own
	want.Number = number
	err = s.change(ctx, want.String())
	switch {
	case err == nil:
		return problem{}, worker.ErrRestart
	case ctx.Err() != nil:
		return problem{}, ctx.Err()
	case errors.Is(err, errElsewhere):
		return problem{text: fmt.Sprintf("cannot upgrade to %s: %v", number, err)}, nil
	case errors.Is(err, errUnfit):
		return problem{text: fmt.Sprintf("cannot upgrade to %s: %v; waiting for another version", number, err)}, nil
	}
	return problem{text: fmt.Sprintf("cannot upgrade to %s: %v; trying again", number, err), passes: true}, nil
}

// change has a version run from now on. It returns an error of kind errUnfit for
// one that does not work.
func (s *session) change(ctx context.Context, want string) error {
	name, err := s.files.current()
	if err != nil {
		return err
	}
	if name == want {
		return unfitf("what is installed by that name is version %s", s.own.Number)
	}
	r := readRecord(s.files.record())
	if why := r.reason(want); why != "" {
		return unfitf("%s", why)
	}
	from, err := s.offer(ctx, want)
	if err != nil {
		return err
	}
	info, err := s.cfg.Info()
	if err != nil {
		return errors.Trace(err)
	}
	info.Addrs = s.addrs
	s.cfg.at("fetch")
	if err := s.files.fetch(ctx, info, from); err != nil {
		return s.judge(want, err)
	}
	if name == "" {
		name = s.own.String()
		s.cfg.at("keep")
		if err := s.files.keep(name); err != nil {
			return errors.Annotate(err, "cannot keep the version that runs")
		}
	}
	if err := s.try(ctx, want, name); err != nil {
		return err
	}
	return s.switchTo(want, name)
}

// offer returns where a version can be had.
func (s *session) offer(ctx context.Context, want string) (params.Tools, error) {
	all, err := s.Tools(ctx)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return params.Tools{}, errors.Annotate(err, "cannot get where it is")
	}
	for _, t := range all {
		if t.Version == want {
			return t, nil
		}
	}
	return params.Tools{}, errors.Errorf("no agent binary %s has been uploaded", want)
}

// try runs a version beside this one.
func (s *session) try(ctx context.Context, want, name string) error {
	r := readRecord(s.files.record())
	if r.begin(want, name) > maxAttempts {
		return s.judge(want, unfitf("%d trials of it were cut short", maxAttempts))
	}
	if err := r.write(s.files.record()); err != nil {
		return err
	}
	s.cfg.at("trial")
	logger.Infof("trying version %s", want)
	err := s.cfg.trial(ctx, s.files.program(want), s.cfg.AgentFile, s.cfg.Deadline)
	if err == nil {
		return nil
	}
	if !errors.Is(err, errUnfit) {
		// The connection has gone, or this process is asked to end: that says
		// nothing about the version.
		r.Attempts--
		r.Phase = ""
		if werr := r.write(s.files.record()); werr != nil {
			logger.Warningf("%v", werr)
		}
	}
	return s.judge(want, err)
}

// judge keeps in mind that a version is bad, if that is what an error says.
func (s *session) judge(version string, err error) error {
	if !errors.Is(err, errUnfit) {
		return err
	}
	r := readRecord(s.files.record())
	r.end()
	r.refuse(version, err.Error())
	if werr := r.write(s.files.record()); werr != nil {
		logger.Warningf("%v", werr)
	}
	if name, cerr := s.files.current(); cerr == nil && name != version {
		_ = os.RemoveAll(s.files.version(version)) // it takes room only
	}
	return err
}

// switchTo has a version that has logged in run from now on.
func (s *session) switchTo(want, name string) error {
	r := readRecord(s.files.record())
	r.Version, r.Previous, r.Phase, r.Starts = want, name, switched, 0
	if err := r.write(s.files.record()); err != nil {
		return err
	}
	s.cfg.at("switch")
	if err := s.files.point(want); err != nil {
		return errors.Annotate(err, "cannot switch to it")
	}
	s.cfg.at("switched")
	logger.Infof("version %s logs in: starting it", want)
	return nil
}
