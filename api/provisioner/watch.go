package provisioner

import (
	"context"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// WatchModelMachines watches the lives of the model's top-level machines, by id.
// It is for managers only.
func (c *Client) WatchModelMachines(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.caller, request("WatchModelMachines"))
}

// WatchMachineErrorRetry returns a watcher that fires each minute, when machines
// with transient errors are to be tried again. It is for managers only.
func (c *Client) WatchMachineErrorRetry(ctx context.Context) (watcher.NotifyWatcher, error) {
	return api.WatchNotify(ctx, c.caller, request("WatchMachineErrorRetry"))
}

// WatchModelConfig watches the model's configuration.
func (c *Client) WatchModelConfig(ctx context.Context) (watcher.NotifyWatcher, error) {
	return api.WatchNotify(ctx, c.caller, request("WatchForModelConfigChanges"))
}

// WatchAPIHostPorts watches where the API servers can be reached.
func (c *Client) WatchAPIHostPorts(ctx context.Context) (watcher.NotifyWatcher, error) {
	return api.WatchNotify(ctx, c.caller, request("WatchAPIHostPorts"))
}

// WatchContainers watches the lives of the containers of one type directly in a
// machine, by id. It returns an error satisfying errors.NotValid for what is no type
// of containers.
func (c *Client) WatchContainers(ctx context.Context, id, containerType string) (watcher.StringsWatcher, error) {
	switch containerType {
	case "":
		return nil, errors.NewNotValid(nil, "container type must be specified")
	case string(container.None):
		return nil, errors.NewNotValid(nil, fmt.Sprintf("unsupported container type %q", containerType))
	}
	return c.watchContainers(ctx, "WatchContainers", id, containerType)
}

// WatchAllContainers watches the lives of all containers directly in a machine,
// by id.
func (c *Client) WatchAllContainers(ctx context.Context, id string) (watcher.StringsWatcher, error) {
	return c.watchContainers(ctx, "WatchAllContainers", id, "")
}

func (c *Client) watchContainers(ctx context.Context, method, id, containerType string) (watcher.StringsWatcher, error) {
	args := params.WatchContainers{Params: []params.WatchContainer{{MachineTag: api.MachineTag(id), ContainerType: containerType}}}
	var r params.StringsWatchResults
	if err := c.call(ctx, method, args, &r); err != nil {
		return nil, err
	}
	result, err := api.One(api.ResultsOf(r.Results, 1, func(r *params.StringsWatchResult) (params.StringsWatchResult, *params.Error) {
		return *r, r.Error
	}))
	if err != nil {
		return nil, err
	}
	return api.NewStringsWatcher(c.caller, result)
}
