package upgrader

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/worker"
)

var logger = loggo.GetLogger("slipway.worker.upgrader")

// DefaultDeadline is how long a new version may take to log in.
const DefaultDeadline = 2 * time.Minute

const (
	maxAttempts = 3 // that a trial of one version is begun, if none ends
	maxStarts   = 3 // of a new version that does not log in
)

// Config is what an Upgrader works with.
type Config struct {
	Dir       string                   // with the agent's versions. Required.
	AgentFile string                   // for trials. Required.
	Info      func() (api.Info, error) // whom to fetch packages from. Required.
	Deadline  time.Duration            // for a new version to log in; 0 means DefaultDeadline
	Backoff   worker.Backoff           // between attempts at what may work later; zero means 10 s to 10 min
	Version   string                   // that this program is. Required.

	program string // that runs; empty means this one
	// at, unless it is nil, is told in tests which step is next.
	at func(step string)
	// trial replaces the run of a new version in tests.
	trial func(ctx context.Context, program, agentFile string, deadline time.Duration) error
}

// Upgrader changes the version of this process's agent.
type Upgrader struct {
	cfg   Config
	own   binaries.Number
	files files

	mu      sync.Mutex
	unsure  bool // this version has not logged in yet since the switch to it
	expired bool // and its time is over
}

// New returns an Upgrader. It returns an error satisfying errors.NotValid if
// something is missing.
func New(cfg Config) (*Upgrader, error) {
	if cfg.Dir == "" || cfg.AgentFile == "" || cfg.Info == nil {
		return nil, errors.NotValidf("upgrader without Dir, AgentFile or Info")
	}
	own, err := binaries.ParseNumber(cfg.Version)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.Backoff == (worker.Backoff{}) {
		cfg.Backoff = worker.Backoff{Min: 10 * time.Second, Max: 10 * time.Minute}
	}
	if cfg.program == "" {
		if cfg.program, err = os.Executable(); err != nil {
			return nil, errors.Annotate(err, "cannot find this program")
		}
	}
	if cfg.at == nil {
		cfg.at = func(string) {}
	}
	if cfg.trial == nil {
		cfg.trial = trial
	}
	return &Upgrader{cfg: cfg, own: own, files: files{dir: cfg.Dir, running: cfg.program}}, nil
}

// Program returns the path of the program that is to run from now on, after an
// error of worker.ErrRestart.
func (u *Upgrader) Program() string { return u.files.program(currentName) }

// Begin takes up what the last run of the agent, or a loss of power, has left.
// Call it first. If its error is worker.ErrRestart the program has to replace
// itself by Program.
func (u *Upgrader) Begin() error {
	name, err := u.files.current()
	if err != nil {
		return nil // whoever wants an upgrade is told why there is none
	}
	r := readRecord(u.files.record())
	switch {
	case r.Phase == "":
		return nil
	case r.Phase == trying || r.Version != name:
		r.Phase = "" // it was cut short, or undone; the number of attempts stays
	case r.Starts >= maxStarts:
		return u.GoBack(fmt.Sprintf("it was started %d times and never logged in", r.Starts))
	default:
		r.Starts++
		u.unsure = true
	}
	if err := r.write(u.files.record()); err != nil {
		logger.Warningf("%v", err) // a full disk keeps no agent from running
	}
	return nil
}

// LoggedIn notes that this version works. Call it whenever the agent has logged
// in.
func (u *Upgrader) LoggedIn() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.unsure || u.expired {
		return
	}
	r := readRecord(u.files.record())
	keep := []string{r.Version, r.Previous}
	r.end()
	if err := r.write(u.files.record()); err != nil {
		logger.Warningf("%v", err) // the next login tries again
		return
	}
	u.unsure = false
	u.files.prune(keep...)
	logger.Infof("the agent now runs version %s", u.own)
}

// Guard calls kill if this version is a new one and has not logged in when its
// time is over. After that Expired is true. It returns what stops it.
func (u *Upgrader) Guard(kill func()) func() {
	timer := time.AfterFunc(u.cfg.Deadline, func() {
		u.mu.Lock()
		u.expired = u.unsure
		expired := u.expired
		u.mu.Unlock()
		if expired {
			kill()
		}
	})
	return func() { timer.Stop() }
}

// Expired returns nil unless Guard has killed the agent. Then it goes back to the
// version before, and returns what GoBack does.
func (u *Upgrader) Expired() error {
	u.mu.Lock()
	expired := u.expired
	u.mu.Unlock()
	if !expired {
		return nil
	}
	return u.GoBack(fmt.Sprintf("it did not log in within %v after it had taken over", u.cfg.Deadline))
}

// GoBack has the version before run again, and keeps the reason in mind. Its
// error is worker.ErrRestart if all went well.
func (u *Upgrader) GoBack(reason string) error {
	r := readRecord(u.files.record())
	logger.Errorf("going back from %s to %s: %s", r.Version, r.Previous, reason)
	r.refuse(r.Version, reason)
	// The phase stays: without power from here on, it is gone back from again.
	if err := r.write(u.files.record()); err != nil {
		logger.Warningf("%v", err)
	}
	u.cfg.at("back")
	if err := u.files.point(r.Previous); err != nil {
		return errors.Annotatef(err, "cannot go back to version %s", r.Previous)
	}
	return worker.ErrRestart
}

// architecture returns what packages call this machine's.
func architecture() string {
	name := map[string]string{"386": arch.I386, "arm": arch.ARMHF, "ppc64le": arch.PPC64EL}[runtime.GOARCH]
	if name == "" {
		name = runtime.GOARCH
	}
	return name
}
