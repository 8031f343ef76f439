package machineagent

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// session is the agent's work over one connection.
type session struct {
	agent     *Agent
	link      link
	machineID string
	file      agentfile.File // as it should be on the disk

	reported []network.Address // as the controller has them; nil means that it has not been told
	started  bool
	stopped  bool

	note    string        // what the machine's status says besides
	notes   chan string   // those that are new
	restart chan struct{} // the program is to be started anew
}

// run works until the connection ends or the machine is dead, which it reports.
func (s *session) run(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.link.Broken():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-ended }()

	s.agent.log.say(s.ownPassword(ctx))
	lives, err := s.link.Watch(ctx)
	if err != nil {
		return false, errors.Annotate(err, "cannot watch the machine")
	}
	defer end(lives)
	controllers, err := s.link.WatchAPIHostPorts(ctx)
	if err != nil {
		return false, errors.Annotate(err, "cannot watch the controllers' addresses")
	}
	defer end(controllers)
	served := s.keep(ctx, s.agent.cfg.Serve)
	defer func() { cancel(); <-served }()
	upgraded := s.keep(ctx, s.upgrade())
	defer func() { cancel(); <-upgraded }()
	return s.follow(ctx, lives, controllers)
}

// end ends a watcher.
func end(w watcher.Watcher) {
	w.Kill()
	_ = w.Wait() // its end is no news
}

// follow reacts to whatever changes.
func (s *session) follow(ctx context.Context, lives, controllers watcher.NotifyWatcher) (bool, error) {
	// Death may have to wait for containers: nothing tells when the last has
	// gone, so it is tried again after a pause.
	backoff := worker.Backoff{Min: time.Second, Max: 30 * time.Second}
	var again <-chan time.Time
	following, cancel := context.WithCancel(ctx)
	system := s.agent.cfg.System.Changes(following)
	defer func(system <-chan struct{}) {
		cancel()
		for range system { // until it is closed
		}
	}(system)
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return false, errors.Errorf("the connection to %s has broken", s.link.Addrs()[0])
		case _, ok := <-controllers.Changes():
			if !ok {
				return false, errors.Annotate(controllers.Wait(), "cannot watch the controllers' addresses")
			}
			if err := s.learnAddresses(ctx); err != nil {
				return false, err
			}
			continue
		case _, ok := <-system:
			if !ok {
				system = nil
				continue
			}
			if err := s.report(ctx); err != nil {
				return false, err
			}
			continue
		case <-s.restart:
			return false, worker.ErrRestart
		case s.note = <-s.notes:
			if !s.started {
				continue // the first report will have it
			}
			s.started = false
			if err := s.report(ctx); err != nil {
				return false, err
			}
			continue
		case <-again:
		case _, ok := <-lives.Changes():
			if !ok {
				return false, errors.Annotate(lives.Wait(), "cannot watch the machine")
			}
		}
		dead, err := s.live(ctx)
		if dead || err != nil {
			return dead, err
		}
		if s.stopped {
			failures++
			again = time.After(backoff.Delay(failures))
		}
	}
}

// live does what the machine's life asks for. It reports whether the machine is
// dead.
func (s *session) live(ctx context.Context) (bool, error) {
	l, err := s.link.Life(ctx)
	if err != nil {
		return false, errors.Annotate(err, "cannot get the machine's life")
	}
	switch l {
	case life.Alive:
		return false, s.report(ctx)
	case life.Dead:
		return true, nil
	}
	if !s.stopped {
		if err := s.link.SetStatus(ctx, status.Stopped, "", nil); err != nil {
			return false, errors.Annotate(err, "cannot report that the agent has stopped")
		}
		s.stopped = true
	}
	if err := s.link.EnsureDead(ctx); err != nil {
		if ctx.Err() != nil {
			return false, errors.Trace(err)
		}
		logger.Infof("machine %s cannot end yet, trying again: %v", s.machineID, err)
		return false, nil
	}
	return true, nil
}

// report tells the controller the machine's addresses, if they changed, and once
// that the agent has started.
func (s *session) report(ctx context.Context) error {
	addresses, err := s.agent.cfg.System.Addresses()
	if err != nil {
		logger.Warningf("cannot list this machine's addresses: %v", err)
	} else if s.reported == nil || !slices.Equal(addresses, s.reported) {
		if err := s.link.SetAddresses(ctx, addresses); err != nil {
			return errors.Annotate(err, "cannot report addresses")
		}
		s.reported = append([]network.Address{}, addresses...)
	}
	if s.started || s.stopped {
		return nil
	}
	data := map[string]any{"hardware": s.agent.cfg.System.Hardware().String()}
	if err := s.link.SetStatus(ctx, status.Started, s.note, data); err != nil {
		return errors.Annotate(err, "cannot report that the agent has started")
	}
	s.started = true
	return nil
}

// learnAddresses keeps in mind where the controllers are now. Addresses that
// were known before stay behind them: they may be the only ones that lead there
// from this machine.
func (s *session) learnAddresses(ctx context.Context) error {
	now, err := s.link.APIAddresses(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot get the controllers' addresses")
	}
	var known []string
	for _, addr := range slices.Concat(s.link.Addrs()[:1], now, s.file.APIAddresses) {
		if !slices.Contains(known, addr) && len(known) < maxAddresses {
			known = append(known, addr)
		}
	}
	if slices.Equal(known, s.file.APIAddresses) {
		return nil
	}
	file := s.file
	file.APIAddresses = known
	if err := agentfile.Write(s.agent.cfg.AgentFile, file); err != nil {
		logger.Infof("cannot keep the controllers' new addresses: %v", err)
		return nil
	}
	s.file = file
	return nil
}

// maxAddresses is how many addresses are kept: old ones go first.
const maxAddresses = 20

// ownPassword replaces the password that the machine was provisioned with. If
// the disk is full, or the controller does not want it, the old one stays in
// force until the next connection.
func (s *session) ownPassword(ctx context.Context) error {
	path := s.agent.cfg.AgentFile
	file := s.file
	if !file.OwnPassword {
		if file.NextPassword == "" {
			file.NextPassword = newPassword()
			if err := agentfile.Write(path, file); err != nil {
				return errors.Annotate(err, "the first password stays for now")
			}
		}
		// From here on the file has both.
		s.file = file
		if err := s.link.SetPassword(ctx, params.Secret(file.NextPassword)); err != nil {
			return errors.Annotate(err, "the first password stays for now")
		}
		file.Password, file.NextPassword, file.OwnPassword = file.NextPassword, "", true
	} else if onDisk, err := agentfile.Read(path); err == nil && onDisk.Password == file.Password {
		return nil
	}
	s.file = file
	return errors.Annotate(agentfile.Write(path, file), "cannot finish the change of password")
}

// newPassword returns a password of 32 characters, from 24 random bytes.
func newPassword() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// upgrade returns what finds out whether the agent should be another program,
// or nil.
func (s *session) upgrade() func(context.Context, Connection, string) error {
	upgrade := s.agent.cfg.Upgrade
	if upgrade == nil {
		return nil
	}
	return func(ctx context.Context, c Connection, machineID string) error {
		err := upgrade(ctx, c, machineID, func(message string) {
			select {
			case s.notes <- message:
			case <-ctx.Done():
			}
		})
		if errors.Is(err, worker.ErrRestart) {
			s.restart <- struct{}{} // there is room: this is the last thing it does
			return nil
		}
		return err
	}
}

// keep runs something else over the connection, again whenever it fails. The
// channel is closed when it has ended.
func (s *session) keep(ctx context.Context, serve func(context.Context, Connection, string) error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for failures := 1; serve != nil && ctx.Err() == nil; failures++ {
			err := serve(ctx, s.link, s.machineID)
			if ctx.Err() != nil || err == nil {
				return
			}
			logger.Warningf("machine %s: trying again: %v", s.machineID, err)
			timer := time.NewTimer(s.agent.cfg.Backoff.Delay(failures))
			select {
			case <-ctx.Done():
				timer.Stop()
			case <-timer.C:
			}
		}
	}()
	return done
}
