package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/machiner"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// AgentAPI is what an agent asks of the API server, once it has logged in.
type AgentAPI interface {
	Watch(ctx context.Context) (watcher.NotifyWatcher, error)
	Life(ctx context.Context) (life.Value, error)
	Status(ctx context.Context) (status.Status, error)
	SetAddresses(ctx context.Context, addresses []network.Address) error
	SetStatus(ctx context.Context, s status.Status, message string, data map[string]any) error
	EnsureDead(ctx context.Context) error
}

// agentAPI is an AgentAPI over a connection.
type agentAPI struct {
	*machiner.Client
	machines  *provisioner.Client
	machineID string
}

// NewAgentAPI returns what a machine's agent asks, over a connection on which it is
// logged in.
func NewAgentAPI(c api.Caller, machineID string) AgentAPI {
	return agentAPI{machiner.New(c, machineID), provisioner.New(c), machineID}
}

// Status returns the machine's status.
func (a agentAPI) Status(ctx context.Context) (status.Status, error) {
	info, err := api.One(a.machines.Status(ctx, a.machineID))
	return info.Status, err
}

// AgentOptions say how agents connect. The zero value is usable.
type AgentOptions struct {
	Dial    api.DialOptions
	Backoff worker.Backoff

	// Containers is what makes a machine a host, over a connection of its
	// agent. It runs until ctx is done; nil means that there are no containers.
	Containers func(ctx context.Context, c *api.Conn, a Agent)
}

// NewAgent returns the program of agents that log in over the API with the
// machine's password and nonce. They go on trying whatever the answer is: an
// instance is often there before it is recorded, and a refusal is no proof that
// the machine is gone.
func NewAgent(o AgentOptions) AgentFunc {
	return func(ctx context.Context, a Agent) error {
		r := &api.Reconnector{
			Info: api.Info{
				Addrs: a.APIAddresses, CACert: a.CACert, ModelUUID: a.ModelUUID, Tag: api.MachineTag(a.MachineID),
				Password: params.Secret(a.Password), Nonce: a.Nonce, Purpose: "simulated agent",
			},
			Options: o.Dial,
			Backoff: o.Backoff,
			Fatal:   func(error) bool { return false },
		}
		return r.Run(ctx, func(ctx context.Context, c *api.Conn) error {
			if ca := c.CACert(); ca != a.CACert && a.Trust != nil {
				a.Trust(ca)
				a.CACert = ca
			}
			ctx, cancel := context.WithCancel(ctx)
			var hosting sync.WaitGroup
			if o.Containers != nil && a.Host != nil {
				hosting.Go(func() { o.Containers(ctx, c, a) })
			}
			defer hosting.Wait()
			defer cancel()
			return RunAgent(ctx, NewAgentAPI(c, a.MachineID), a)
		})
	}
}

// RunAgent is what an agent does while it is connected: it reports addresses and
// that it has started, and when its machine is dying it reports that it has
// stopped and calls the machine dead. It returns nil when the machine is dead or
// gone.
func RunAgent(ctx context.Context, facade AgentAPI, a Agent) error {
	w, err := facade.Watch(ctx)
	if err != nil {
		return gone(errors.Annotate(err, "cannot watch machine"))
	}
	defer func() {
		w.Kill()
		_ = w.Wait() // its end is no news
	}()
	// How long to wait until the machine is called dead again; most often
	// something changes before.
	backoff := worker.Backoff{Min: time.Second, Max: 30 * time.Second}
	var started, stopped bool
	var again <-chan time.Time
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case <-again:
		case _, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "cannot watch machine")
			}
		}
		switch l, err := facade.Life(ctx); {
		case err != nil:
			return gone(errors.Annotate(err, "cannot get life"))
		case l == life.Alive && !started:
			if err := reportStarted(ctx, facade, a); err != nil {
				return gone(err)
			}
			started = true
		case l == life.Dying:
			if !stopped {
				if err := facade.SetStatus(ctx, status.Stopped, "", nil); err != nil {
					return gone(errors.Annotate(err, "cannot set status"))
				}
				stopped = true
			}
			err := facade.EnsureDead(ctx)
			if err == nil || gone(err) == nil {
				return nil
			}
			failures++
			logger.Debugf("machine-%s cannot die yet: %v", a.MachineID, err)
			again = time.After(backoff.Delay(failures))
		case l == life.Dead:
			return nil
		}
	}
}

// reportStarted reports what an agent knows at its start. One that comes back
// leaves the status alone: it says since when the machine has been started.
func reportStarted(ctx context.Context, facade AgentAPI, a Agent) error {
	if err := facade.SetAddresses(ctx, a.Addresses); err != nil {
		return errors.Annotate(err, "cannot set addresses")
	}
	switch s, err := facade.Status(ctx); {
	case err != nil:
		return errors.Annotate(err, "cannot get status")
	case s == status.Started:
		return nil
	}
	return errors.Annotate(facade.SetStatus(ctx, status.Started, "", nil), "cannot set status")
}

// gone turns the error that a machine is not there any more into none.
func gone(err error) error {
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	return err
}
