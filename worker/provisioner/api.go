package provisioner

import (
	"context"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// API is what a provisioner needs of its controller; *apiprovisioner.Client
// satisfies it. Calls about several machines give one result for each, in the
// same order.
type API interface {
	watching
	reading
	writing
	addressing
}

// watching has the streams of changes that wake the provisioner.
type watching interface {
	WatchModelMachines(ctx context.Context) (watcher.StringsWatcher, error)
	WatchContainers(ctx context.Context, id, containerType string) (watcher.StringsWatcher, error)
	WatchMachineErrorRetry(ctx context.Context) (watcher.NotifyWatcher, error)
	WatchModelConfig(ctx context.Context) (watcher.NotifyWatcher, error)
}

// reading has what the provisioner asks of machines.
type reading interface {
	Life(ctx context.Context, ids ...string) ([]api.Result[life.Value], error)
	InstanceID(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error)
	Status(ctx context.Context, ids ...string) ([]api.Result[status.Info], error)
	ProvisioningInfo(ctx context.Context, ids ...string) ([]api.Result[params.ProvisioningInfo], error)
	MachinesWithTransientErrors(ctx context.Context) ([]apiprovisioner.Transient, error)
}

// writing has what the provisioner tells of machines.
type writing interface {
	SetPasswords(ctx context.Context, set ...apiprovisioner.Password) ([]error, error)
	SetInstanceInfo(ctx context.Context, started ...apiprovisioner.Instance) ([]error, error)
	SetInstanceStatus(ctx context.Context, set ...apiprovisioner.NewStatus) ([]error, error)
	SetStatus(ctx context.Context, set ...apiprovisioner.NewStatus) ([]error, error)
	EnsureDead(ctx context.Context, ids ...string) ([]error, error)
	Remove(ctx context.Context, ids ...string) ([]error, error)
}

// addressing has what the agents of started machines are told of the
// controller, where the agents themselves are to be had, and the model's
// configuration.
type addressing interface {
	APIAddresses(ctx context.Context) ([]string, error)
	CACert(ctx context.Context) (string, error)
	ModelConfig(ctx context.Context) (map[string]any, error)
	DistributionGroup(ctx context.Context, ids ...string) ([]api.Result[[]instance.ID], error)
	FindTools(ctx context.Context, want params.FindToolsParams) ([]params.Tools, error)
}

var _ API = (*apiprovisioner.Client)(nil)
