package client

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Client is the facade of one connection.
type Client struct {
	backend Backend
	retry   *common.StatusSetter
	conn    common.Connection
}

// newClient returns the facade, or ErrPerm if the caller is no person who may
// read the model.
func newClient(backend Backend, finder common.EntityFinder, c common.Connection) (*Client, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	retry := common.NewStatusSetter(common.Entities[common.StatusHolder](finder, "setting status"), common.AuthAlways())
	return &Client{backend, retry, c}, nil
}

// canWrite returns ErrPerm if the caller may only read.
func (c *Client) canWrite() error {
	if !c.conn.Auth.ModelAccess().Includes(access.Write) {
		return common.ErrPerm
	}
	return nil
}

// RetryProvisioning has machines in status error tried again. Their provisioner
// hears of it at once.
func (c *Client) RetryProvisioning(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	if err := c.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	update := params.SetStatus{Entities: make([]params.EntityStatusArgs, len(args.Entities))}
	for i, e := range args.Entities {
		update.Entities[i] = params.EntityStatusArgs{Tag: e.Tag, Data: map[string]any{"transient": true}}
	}
	return c.retry.UpdateStatus(ctx, update)
}

// GetModelConstraints returns what machines must be like unless they are asked
// to be otherwise.
func (c *Client) GetModelConstraints(ctx context.Context) (params.GetConstraintsResults, error) {
	info, err := c.backend.Info(ctx)
	return params.GetConstraintsResults{Constraints: info.Constraints}, errors.Trace(err)
}

// SetModelConstraints replaces the model's constraints.
func (c *Client) SetModelConstraints(ctx context.Context, args params.SetConstraints) error {
	if err := c.canWrite(); err != nil {
		return err
	}
	return errors.Trace(c.backend.SetConstraints(ctx, args.Constraints))
}

// AgentVersion returns the version of the server.
func (c *Client) AgentVersion() (params.AgentVersionResult, error) {
	return params.AgentVersionResult{Version: c.conn.Version}, nil
}

// APIHostPorts returns, for each API server, where it can be reached.
func (c *Client) APIHostPorts(ctx context.Context) (params.APIHostPortsResult, error) {
	servers, err := c.backend.APIHostPorts(ctx)
	if servers == nil {
		servers = [][]network.HostPort{}
	}
	return params.APIHostPortsResult{Servers: servers}, errors.Trace(err)
}

// ModelInfo describes the model. Only who may administer it sees the other
// people in it.
func (c *Client) ModelInfo(ctx context.Context) (params.ModelInfo, error) {
	info, err := c.backend.Info(ctx)
	if err != nil {
		return params.ModelInfo{}, errors.Trace(err)
	}
	settings, err := c.backend.Settings(ctx)
	if err != nil {
		return params.ModelInfo{}, errors.Trace(err)
	}
	machines, err := c.backend.All(ctx)
	if err != nil {
		return params.ModelInfo{}, errors.Trace(err)
	}
	out := params.ModelInfo{
		Name:           info.Name,
		UUID:           c.backend.ModelUUID(),
		ControllerUUID: c.backend.ControllerUUID(),
		IsController:   info.IsController,
		ProviderType:   settings.Type(),
		DefaultSeries:  defaultSeries(settings),
		CloudTag:       "cloud-" + settings.Type(),
		OwnerTag:       userTag(info.Owner),
		Life:           string(info.Life),
		Status:         modelStatus(info.Life),
		Users:          []params.ModelUserInfo{},
		Machines:       make([]params.ModelMachineInfo, 0, len(machines)),
	}
	own := c.conn.Auth.AuthTag().Id()
	for _, name := range sortedKeys(info.Users) {
		if name == own || c.conn.Auth.ModelAccess().Includes(access.Admin) {
			out.Users = append(out.Users, params.ModelUserInfo{UserName: name, Access: string(info.Users[name])})
		}
	}
	for _, m := range machines {
		if m.ParentId() == "" {
			id, _ := m.InstanceId() // empty if there is none
			out.Machines = append(out.Machines, params.ModelMachineInfo{ID: m.Id(), InstanceID: string(id), Status: string(m.Status().Status)})
		}
	}
	return out, nil
}

// modelStatus is what there is to say of a model of some life.
func modelStatus(l life.Value) params.EntityStatus {
	if l == life.Alive {
		return params.EntityStatus{Status: "available"}
	}
	return params.EntityStatus{Status: "destroying"}
}

// userTag returns the tag of a user by name; names are checked when users are
// added.
func userTag(name string) string { return tag.UserKind + "-" + name }
