// Package provisioner asks the Provisioner facade, version 3: what a worker
// needs to start and stop machines. Machines go by id. Calls about several
// machines give one result for each, in the same order.
package provisioner

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Client makes the calls. Its methods may be called concurrently.
type Client struct {
	caller api.Caller
}

// New returns a client that uses a connection.
func New(c api.Caller) *Client { return &Client{caller: c} }

func request(method string) rpc.Request {
	return rpc.Request{Type: "Provisioner", Version: 3, Method: method}
}

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, request(method), args, result))
}

// bulk calls a method about machines whose results have an error each.
func (c *Client) bulk(ctx context.Context, method string, ids []string) ([]error, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var result params.ErrorResults
	if err := c.call(ctx, method, api.Machines(ids), &result); err != nil {
		return nil, err
	}
	return api.ErrorsOf(result, len(ids))
}

// Life returns whether machines are alive, dying or dead. A removed machine's
// error satisfies errors.NotFound.
func (c *Client) Life(ctx context.Context, ids ...string) ([]api.Result[life.Value], error) {
	var r params.LifeResults
	if err := c.call(ctx, "Life", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.LifeResult) (life.Value, *params.Error) {
		return life.Value(r.Life), r.Error
	})
}

// InstanceID returns the instances of machines. The error for a machine without
// one satisfies errors.NotProvisioned.
func (c *Client) InstanceID(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	var r params.StringResults
	if err := c.call(ctx, "InstanceId", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.StringResult) (instance.ID, *params.Error) {
		return instance.ID(r.Result), r.Error
	})
}

// Series returns the operating system series of machines.
func (c *Client) Series(ctx context.Context, ids ...string) ([]api.Result[string], error) {
	var r params.StringResults
	if err := c.call(ctx, "Series", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.StringResult) (string, *params.Error) {
		return r.Result, r.Error
	})
}

// Status returns what the agents of machines reported.
func (c *Client) Status(ctx context.Context, ids ...string) ([]api.Result[status.Info], error) {
	return c.statuses(ctx, "Status", ids)
}

// InstanceStatus returns what is known of the instances of machines.
func (c *Client) InstanceStatus(ctx context.Context, ids ...string) ([]api.Result[status.Info], error) {
	return c.statuses(ctx, "InstanceStatus", ids)
}

func (c *Client) statuses(ctx context.Context, method string, ids []string) ([]api.Result[status.Info], error) {
	var r params.StatusResults
	if err := c.call(ctx, method, api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.StatusResult) (status.Info, *params.Error) {
		return infoOf(r), r.Error
	})
}

func infoOf(r *params.StatusResult) status.Info {
	info := status.Info{Status: status.Status(r.Status), Message: r.Info, Data: r.Data}
	if r.Since != nil {
		info.Since = *r.Since
	}
	return info
}

// NewStatus is a status to set on a machine. The server takes the time.
type NewStatus struct {
	ID      string // of the machine
	Status  status.Status
	Message string
	Data    map[string]any // replaces what was there; nil means none
}

// SetStatus sets the statuses of machines.
func (c *Client) SetStatus(ctx context.Context, set ...NewStatus) ([]error, error) {
	return c.setStatus(ctx, "SetStatus", set)
}

// SetInstanceStatus sets the statuses of machines' instances. The status
// "provisioning error" also sets the machine's to "error", with the same
// message, which must then not be empty.
func (c *Client) SetInstanceStatus(ctx context.Context, set ...NewStatus) ([]error, error) {
	return c.setStatus(ctx, "SetInstanceStatus", set)
}

// UpdateStatus adds data to the statuses of machines that are in error, and
// leaves all else as it is.
func (c *Client) UpdateStatus(ctx context.Context, set ...NewStatus) ([]error, error) {
	return c.setStatus(ctx, "UpdateStatus", set)
}

func (c *Client) setStatus(ctx context.Context, method string, set []NewStatus) ([]error, error) {
	if len(set) == 0 {
		return nil, nil
	}
	args := params.SetStatus{Entities: make([]params.EntityStatusArgs, len(set))}
	for i, s := range set {
		args.Entities[i] = params.EntityStatusArgs{Tag: api.MachineTag(s.ID), Status: string(s.Status), Info: s.Message, Data: s.Data}
	}
	var r params.ErrorResults
	if err := c.call(ctx, method, args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(set))
}

// Transient is a machine whose start failed and should be tried again.
type Transient struct {
	ID     string
	Life   life.Value
	Status status.Info // Since is zero
}

// MachinesWithTransientErrors returns the machines in error that an operator,
// or the worker itself, wants to be tried again.
func (c *Client) MachinesWithTransientErrors(ctx context.Context) ([]Transient, error) {
	var r params.StatusResults
	if err := c.call(ctx, "MachinesWithTransientErrors", nil, &r); err != nil {
		return nil, err
	}
	out := make([]Transient, 0, len(r.Results))
	for i := range r.Results {
		m := &r.Results[i]
		if m.Error != nil {
			return nil, m.Error
		}
		out = append(out, Transient{ID: m.ID, Life: life.Value(m.Life), Status: infoOf(m)})
	}
	return out, nil
}

// EnsureDead makes machines dead, unless something still depends on them.
func (c *Client) EnsureDead(ctx context.Context, ids ...string) ([]error, error) {
	return c.bulk(ctx, "EnsureDead", ids)
}

// Remove removes the records of dead machines.
func (c *Client) Remove(ctx context.Context, ids ...string) ([]error, error) {
	return c.bulk(ctx, "Remove", ids)
}

// MarkForRemoval has dead machines removed once their resources are gone.
func (c *Client) MarkForRemoval(ctx context.Context, ids ...string) ([]error, error) {
	return c.bulk(ctx, "MarkMachinesForRemoval", ids)
}

// Password is a password to set for the agent of a machine, at least 24 bytes.
type Password struct {
	ID       string // of the machine
	Password params.Secret
}

// SetPasswords sets the passwords of machines' agents.
func (c *Client) SetPasswords(ctx context.Context, set ...Password) ([]error, error) {
	if len(set) == 0 {
		return nil, nil
	}
	args := params.EntityPasswords{Changes: make([]params.EntityPassword, len(set))}
	for i, p := range set {
		args.Changes[i] = params.EntityPassword{Tag: api.MachineTag(p.ID), Password: p.Password}
	}
	var r params.ErrorResults
	if err := c.call(ctx, "SetPasswords", args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(set))
}

// Constraints returns the constraints of machines.
func (c *Client) Constraints(ctx context.Context, ids ...string) ([]api.Result[constraints.Value], error) {
	var r params.ConstraintsResults
	if err := c.call(ctx, "Constraints", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.ConstraintsResult) (constraints.Value, *params.Error) {
		return r.Constraints, r.Error
	})
}

// DistributionGroup returns the instances that each machine should be kept
// apart from, where there is a choice. A machine's own may be among them.
func (c *Client) DistributionGroup(ctx context.Context, ids ...string) ([]api.Result[[]instance.ID], error) {
	var r params.DistributionGroupResults
	if err := c.call(ctx, "DistributionGroup", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.DistributionGroupResult) ([]instance.ID, *params.Error) {
		out := make([]instance.ID, len(r.Result))
		for i, id := range r.Result {
			out[i] = instance.ID(id)
		}
		return out, r.Error
	})
}

// ProvisioningInfo returns what must be known to start machines.
func (c *Client) ProvisioningInfo(ctx context.Context, ids ...string) ([]api.Result[params.ProvisioningInfo], error) {
	var r params.ProvisioningInfoResults
	if err := c.call(ctx, "ProvisioningInfo", api.Machines(ids), &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(ids), func(r *params.ProvisioningInfoResult) (params.ProvisioningInfo, *params.Error) {
		if r.Error == nil && r.Result == nil {
			return params.ProvisioningInfo{}, &params.Error{Message: "server answered with no provisioning information"}
		}
		if r.Error != nil {
			return params.ProvisioningInfo{}, r.Error
		}
		return *r.Result, nil
	})
}

// Instance is an instance that was started for a machine.
type Instance struct {
	MachineID string
	ID        instance.ID
	Nonce     string                    // what its agent logs in with
	Hardware  *hardware.Characteristics // nil means unknown
	Network   []params.NetworkConfig    // nil means unknown
	Volumes   []Volume                  // that were made with it
}

// Volume is a volume that was made with an instance, and is attached to it.
type Volume struct {
	ID         string // of the volume in the model
	VolumeID   string // the provider's
	Size       uint64 // MiB
	DeviceName string // as the instance sees it
	Persistent bool   // whether it outlives the instance
}

// SetInstanceInfo records instances, each once and for good. The error for a
// machine that is no longer alive, or has an instance, says so; the instance
// should then be stopped.
func (c *Client) SetInstanceInfo(ctx context.Context, started ...Instance) ([]error, error) {
	if len(started) == 0 {
		return nil, nil
	}
	args := params.InstancesInfo{Machines: make([]params.InstanceInfo, len(started))}
	for i, s := range started {
		args.Machines[i] = params.InstanceInfo{Tag: api.MachineTag(s.MachineID), InstanceID: string(s.ID), Nonce: s.Nonce,
			Characteristics: s.Hardware, NetworkConfig: s.Network}
		addVolumes(&args.Machines[i], s.Volumes)
	}
	var r params.ErrorResults
	if err := c.call(ctx, "SetInstanceInfo", args, &r); err != nil {
		return nil, err
	}
	return api.ErrorsOf(r, len(started))
}

// addVolumes adds volumes to what is said of an instance.
func addVolumes(to *params.InstanceInfo, volumes []Volume) {
	if len(volumes) > 0 {
		to.VolumeAttachments = make(map[string]params.VolumeAttachmentInfo, len(volumes))
	}
	for _, v := range volumes {
		tag := "volume-" + v.ID
		to.Volumes = append(to.Volumes, params.Volume{
			VolumeTag: tag, Info: params.VolumeInfo{VolumeID: v.VolumeID, Size: v.Size, Persistent: v.Persistent},
		})
		to.VolumeAttachments[tag] = params.VolumeAttachmentInfo{DeviceName: v.DeviceName}
	}
}

// FindTools returns the agent binaries that fit.
func (c *Client) FindTools(ctx context.Context, want params.FindToolsParams) ([]params.Tools, error) {
	var r params.FindToolsResult
	if err := c.call(ctx, "FindTools", want, &r); err != nil {
		return nil, err
	}
	return r.List, api.ErrorOf(r.Error)
}

// APIHostPorts returns where the API servers can be reached, a list for each.
func (c *Client) APIHostPorts(ctx context.Context) ([][]network.HostPort, error) {
	var r params.APIHostPortsResult
	err := c.call(ctx, "APIHostPorts", nil, &r)
	return r.Servers, err
}

// APIAddresses returns where machines reach the API servers, host:port each.
func (c *Client) APIAddresses(ctx context.Context) ([]string, error) {
	var r params.StringsResult
	if err := c.call(ctx, "APIAddresses", nil, &r); err != nil {
		return nil, err
	}
	return r.Result, api.ErrorOf(r.Error)
}

// CACert returns the certificate of the controller's authority, in PEM.
func (c *Client) CACert(ctx context.Context) (string, error) {
	var r params.BytesResult
	err := c.call(ctx, "CACert", nil, &r)
	return string(r.Result), err
}

// ModelUUID returns the UUID of the connection's model.
func (c *Client) ModelUUID(ctx context.Context) (string, error) {
	var r params.StringResult
	if err := c.call(ctx, "ModelUUID", nil, &r); err != nil {
		return "", err
	}
	return r.Result, api.ErrorOf(r.Error)
}

// ModelConfig returns the model's configuration.
func (c *Client) ModelConfig(ctx context.Context) (map[string]any, error) {
	var r params.ModelConfigResult
	err := c.call(ctx, "ModelConfig", nil, &r)
	return r.Config, err
}

// ControllerConfig returns the controller's configuration.
func (c *Client) ControllerConfig(ctx context.Context) (map[string]any, error) {
	var r params.ModelConfigResult
	err := c.call(ctx, "ControllerConfig", nil, &r)
	return r.Config, err
}
