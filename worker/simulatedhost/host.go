// Package simulatedhost makes the machines of a simulated rack hosts of simulated
// containers: it is the part of their agents that provisions those.
package simulatedhost

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	apicontainers "github.com/slipway-project/slipway/api/containers"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/provisioner"
)

var logger = loggo.GetLogger("slipway.worker.simulatedhost")

// API is what a host needs of its controller; *apiprovisioner.Client satisfies
// it.
type API interface {
	provisioner.API
	provisioner.Allocator
	SetSupportedContainers(ctx context.Context, id string, types ...string) error
}

var _ API = (*apiprovisioner.Client)(nil)

// Run is a simulated.AgentOptions.Containers.
func Run(ctx context.Context, c *api.Conn, a simulated.Agent) {
	Config{
		API: apiprovisioner.New(c), MachineID: a.MachineID, ModelUUID: a.ModelUUID,
		ControllerUUID: c.ControllerUUID(), Broker: a.Host, Retries: apicontainers.New(c, a.MachineID).WatchRetries,
	}.Run(ctx)
}

// Config is what a host works with. All fields are required.
type Config struct {
	API            API // logged in as the machine
	MachineID      string
	ModelUUID      string
	ControllerUUID string
	Broker         provisioner.Broker // of the machine's containers
	// Retries tells when another try of a container is asked for.
	Retries func(ctx context.Context) (watcher.NotifyWatcher, error)
}

// Run says which containers the machine can hold, and provisions them, until ctx
// is done or the machine is dead. What fails is begun again after a pause.
func (c Config) Run(ctx context.Context) {
	backoff := worker.Backoff{Max: 30 * time.Second}
	for failures := 1; ; failures++ {
		err := c.serve(ctx)
		if ctx.Err() != nil || errors.Is(err, kind.Dead) || errors.Is(err, errors.NotFound) {
			return
		}
		logger.Warningf("containers on machine %s are not provisioned, trying again: %v", c.MachineID, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Delay(failures)):
		}
	}
}

// serve provisions containers until something fails. A machine without containers
// costs one watcher.
func (c Config) serve(ctx context.Context) error {
	if err := c.API.SetSupportedContainers(ctx, c.MachineID, string(container.LXD)); err != nil {
		return errors.Annotate(err, "cannot say which containers there can be")
	}
	if err := c.awaitFirst(ctx); err != nil {
		return errors.Trace(err)
	}
	p, err := provisioner.New(provisioner.Config{
		API: c.API, ModelUUID: c.ModelUUID, ControllerUUID: c.ControllerUUID, Network: c.API,
		Host: &provisioner.Host{ID: c.MachineID, Type: container.LXD, Broker: c.Broker, Retries: c.Retries},
	})
	if err != nil {
		return errors.Trace(err)
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	return errors.Trace(p.Wait())
}

// awaitFirst returns when there is a container.
func (c Config) awaitFirst(ctx context.Context) error {
	w, err := c.API.WatchContainers(ctx, c.MachineID, string(container.LXD))
	if err != nil {
		return errors.Annotate(err, "cannot watch containers")
	}
	defer func() {
		w.Kill()
		_ = w.Wait() // its end is no news
	}()
	for {
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case ids, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "cannot watch containers")
			}
			if len(ids) > 0 {
				return nil
			}
		}
	}
}
