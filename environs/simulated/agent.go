package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
)

// Agent is what the agent of an instance knows. It holds secrets, so it prints
// as "[redacted]" and its machine.
type Agent struct {
	MachineID    string            `json:"machine-id"`
	ModelUUID    string            `json:"model-uuid"`
	Nonce        string            `json:"nonce"`
	Password     string            `json:"password"`
	APIAddresses []string          `json:"api-addresses"` // host:port each
	CACert       string            `json:"ca-cert"`       // PEM
	Addresses    []network.Address `json:"addresses,omitempty"`

	// Trust keeps other authorities in the place of CACert; nil means that
	// nothing is kept.
	Trust func(caCert string) `json:"-"`
	// Host is where the agent can start containers; nil means nowhere.
	Host *Host `json:"-"`
}

// String names the machine and nothing secret.
func (a Agent) String() string { return "[redacted] agent of machine " + a.MachineID }

// GoString is String, so that no verb of fmt prints a secret.
func (a Agent) GoString() string { return a.String() }

// AgentFunc is the program of an agent. It runs until its machine is dead or
// gone, and then returns nil, or until ctx is done, which is when its instance
// is stopped.
type AgentFunc func(ctx context.Context, a Agent) error

// agents runs the agents of instances.
type agents struct {
	run    AgentFunc // nil means that there are none
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool // no more are started
	running map[instance.ID]context.CancelFunc
}

// newAgents returns the place where agents run, with none in it.
func newAgents(run AgentFunc) *agents {
	// Agents live as long as the rack, whose close ends the context.
	ctx, cancel := context.WithCancel(context.Background())
	return &agents{run: run, ctx: ctx, cancel: cancel, running: map[instance.ID]context.CancelFunc{}}
}

// start runs the agent of an instance, after the time that it takes to boot.
func (s *agents) start(id instance.ID, boot time.Duration, a Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.closed {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.running[id] = cancel
	s.wg.Go(func() {
		defer s.stop(id)
		if wait(ctx, boot) != nil {
			return
		}
		switch err := s.run(ctx, a); {
		case err == nil:
			logger.Debugf("agent of machine-%s on %s is done", a.MachineID, id)
		case ctx.Err() == nil:
			logger.Warningf("agent of machine-%s on %s has ended: %v", a.MachineID, id, err)
		}
	})
}

// stop ends the agent of an instance, if it runs, and does not wait for it.
func (s *agents) stop(id instance.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[id]; cancel != nil {
		cancel()
		delete(s.running, id)
	}
}

// close ends all agents and waits for them.
func (s *agents) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// wait returns nil after d, or ctx's error when that is done first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
