package containers

import (
	"context"

	"github.com/juju/errors"

	apicontainers "github.com/slipway-project/slipway/api/containers"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/worker/machineagent"
)

// Serve returns what a machine's agent does over each of its connections: it
// runs a Worker with the machine's own LXD server, which o names.
func Serve(o lxd.Options) func(ctx context.Context, c machineagent.Connection, machineID string) error {
	return func(ctx context.Context, c machineagent.Connection, machineID string) error {
		w, err := New(Config{
			API: apiprovisioner.New(c), MachineID: machineID, ModelUUID: c.ModelUUID(), ControllerUUID: c.ControllerUUID(),
			Retries: apicontainers.New(c, machineID).WatchRetries, Addresses: c.Addrs()[:1], LXD: o, Resolvers: Resolvers,
		})
		if err != nil {
			return errors.Trace(err)
		}
		stop := context.AfterFunc(ctx, w.Kill)
		defer stop()
		return errors.Trace(w.Wait())
	}
}
