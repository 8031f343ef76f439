package machineagent

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/worker"
)

var logger = loggo.GetLogger("slipway.worker.machineagent")

// Config is what an agent works with.
type Config struct {
	// AgentFile is the path of the file that says who the agent is. Required.
	AgentFile string
	// Options say how to connect.
	Options api.DialOptions
	// Backoff is between attempts at anything that failed.
	Backoff worker.Backoff
	// System is the machine that the agent runs on; nil means this one.
	System System
	// Serve, unless it is nil, does more work over each connection, such as to
	// provision containers. It returns when its context is done; if it fails, it
	// is called again after a pause.
	Serve func(ctx context.Context, c Connection, machineID string) error
	// Upgrade, unless it is nil, is called like Serve, to find out whether the
	// agent should be another program. It has the machine's status say what it
	// tells, until it tells something else. If its error is worker.ErrRestart the
	// agent ends with that.
	Upgrade func(ctx context.Context, c Connection, machineID string, tell func(message string)) error
	// LoggedIn, unless it is nil, is called whenever the agent has logged in.
	LoggedIn func()

	// dial replaces the connection to a controller in tests.
	dial func(ctx context.Context, info api.Info) (link, error)
}

// Agent is the agent of one machine. It lives until it is killed or its machine
// is dead.
type Agent struct {
	tomb tomb.Tomb
	cfg  Config
	log  complaint
}

var _ worker.Worker = (*Agent)(nil)

// complete returns cfg with what is left open filled in.
func (cfg Config) complete() (Config, error) {
	if cfg.AgentFile == "" {
		return cfg, errors.NotValidf("missing AgentFile")
	}
	if cfg.System == nil {
		cfg.System = ThisMachine{}
	}
	if cfg.dial == nil {
		options := cfg.Options
		cfg.dial = func(ctx context.Context, info api.Info) (link, error) { return dialAPI(ctx, info, options) }
	}
	return cfg, nil
}

// New starts an agent.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg}
	a.tomb.Go(a.loop)
	return a, nil
}

// Kill asks the agent to stop.
func (a *Agent) Kill() { a.tomb.Kill(nil) }

// Wait returns when the agent has stopped: nil after Kill and when the machine is
// dead, and worker.ErrRestart when Config.Upgrade said so.
func (a *Agent) Wait() error { return a.tomb.Wait() }

// healthy is how long a connection has to last before earlier failures are
// forgotten.
const healthy = 5 * time.Second

// loop connects again and again until the machine is dead.
func (a *Agent) loop() error {
	ctx := a.tomb.Context(nil)
	for failures := 0; ; {
		began := time.Now()
		done, err := a.attempt(ctx)
		if !a.tomb.Alive() {
			return nil
		}
		if done {
			return nil
		}
		if errors.Is(err, worker.ErrRestart) {
			return worker.ErrRestart
		}
		if time.Since(began) >= healthy {
			failures = 0
		}
		failures++
		a.log.say(err)
		timer := time.NewTimer(a.cfg.Backoff.Delay(failures))
		select {
		case <-a.tomb.Dying():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// attempt connects once, and works over the connection until it ends. It reports
// whether the machine is dead, and else why the connection ended.
func (a *Agent) attempt(ctx context.Context) (bool, error) {
	file, err := agentfile.Read(a.cfg.AgentFile)
	if err != nil {
		return false, errors.Annotate(err, "waiting for the agent file")
	}
	id, ok := api.MachineID(file.Tag)
	if !ok {
		return false, errors.Errorf("waiting for the agent file of a machine: %s is for %q", a.cfg.AgentFile, file.Tag)
	}
	l, err := a.logIn(ctx, &file)
	if err != nil {
		return false, err
	}
	defer l.Close()
	a.log.clear()
	logger.Infof("%s is connected to %s", file.Tag, l.Addrs()[0])
	if a.cfg.LoggedIn != nil {
		a.cfg.LoggedIn()
	}
	if ca := l.CACert(); ca != "" && ca != file.CACert {
		file.CACert = ca
		if err := agentfile.Write(a.cfg.AgentFile, file); err != nil {
			return false, errors.Annotate(err, "cannot note whom to trust")
		}
		logger.Infof("the controller has named another certificate authority")
	}
	s := &session{agent: a, link: l, machineID: id, file: file, notes: make(chan string), restart: make(chan struct{}, 1)}
	dead, err := s.run(ctx)
	if err != nil || !dead {
		return false, err
	}
	a.cleanUp(file)
	return true, nil
}

// logIn connects with whichever of the file's passwords is good. It changes the
// file's content so that that one is Password.
func (a *Agent) logIn(ctx context.Context, file *agentfile.File) (link, error) {
	l, err := a.cfg.dial(ctx, file.Info())
	if file.NextPassword == "" || !errors.Is(err, errors.Unauthorized) {
		return l, err
	}
	next := *file
	next.Password, next.NextPassword, next.OwnPassword = file.NextPassword, "", true
	l, nextErr := a.cfg.dial(ctx, next.Info())
	if errors.Is(nextErr, errors.Unauthorized) {
		return nil, err // neither
	}
	if nextErr == nil {
		*file = next
	}
	return l, nextErr
}

// cleanUp removes what is of no use any more.
func (a *Agent) cleanUp(file agentfile.File) {
	logger.Infof("%s is dead: the agent ends", file.Tag)
	if err := a.cfg.System.Remove(a.cfg.AgentFile); err != nil {
		logger.Warningf("cannot remove the agent file: %v", err)
	}
}
