package provisioner

import (
	"context"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
)

// SetSupportedContainers says which types of container a machine can host;
// none means that it can host none.
func (c *Client) SetSupportedContainers(ctx context.Context, id string, types ...string) error {
	args := params.MachineContainersParams{Params: []params.MachineContainers{{MachineTag: api.MachineTag(id), ContainerTypes: types}}}
	var r params.ErrorResults
	if err := c.call(ctx, "SetSupportedContainers", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}

// ContainerManagerConfig returns how containers of a type are to be managed.
func (c *Client) ContainerManagerConfig(ctx context.Context, containerType string) (map[string]string, error) {
	var r params.ContainerManagerConfig
	err := c.call(ctx, "ContainerManagerConfig", params.ContainerManagerConfigParams{Type: containerType}, &r)
	return r.ManagerConfig, err
}

// ContainerConfig returns what of the model's configuration a container's first
// boot needs.
func (c *Client) ContainerConfig(ctx context.Context) (params.ContainerConfig, error) {
	var r params.ContainerConfig
	err := c.call(ctx, "ContainerConfig", nil, &r)
	return r, err
}

// PrepareContainerInterfaceInfo allocates addresses for containers that are
// about to be started, and returns how to configure their network.
func (c *Client) PrepareContainerInterfaceInfo(ctx context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	return c.interfaceInfo(ctx, "PrepareContainerInterfaceInfo", ids)
}

// GetContainerInterfaceInfo returns how the network of containers is configured.
func (c *Client) GetContainerInterfaceInfo(ctx context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	return c.interfaceInfo(ctx, "GetContainerInterfaceInfo", ids)
}

func (c *Client) interfaceInfo(ctx context.Context, method string, ids []string) ([]api.Result[[]params.NetworkConfig], error) {
	var r params.MachineNetworkConfigResults
	if err := c.call(ctx, method, api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.MachineNetworkConfigResult) ([]params.NetworkConfig, *params.Error) {
		return r.Config, r.Error
	})
}

// ReleaseContainerAddresses gives back the addresses of containers.
func (c *Client) ReleaseContainerAddresses(ctx context.Context, ids ...string) ([]error, error) {
	return c.bulk(ctx, "ReleaseContainerAddresses", ids)
}
