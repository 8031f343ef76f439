package provisioner

import (
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// InstanceStatus returns the instance status for each given entity. Only machine
// tags are accepted.
func (p *ProvisionerAPI) InstanceStatus(args params.Entities) (params.StatusResults, error) {
	results := make([]params.StatusResult, len(args.Entities))
	err := machinesOnly[instanceStatusMachine](p, "instances").Do(p.ctx(), len(results), texts(args), func(i int, m instanceStatusMachine) error {
		results[i] = common.StatusResult(m.InstanceStatus())
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StatusResults{Results: results}, err
}

// SetInstanceStatus updates the instance status for each given entity. Only
// machine tags are accepted. A provisioning error becomes the machine's status
// too.
func (p *ProvisionerAPI) SetInstanceStatus(args params.SetStatus) (params.ErrorResults, error) {
	now := time.Now()
	b := machinesOnly[instanceStatusMachine](p, "instances")
	b.Fresh = true
	results := make([]params.ErrorResult, len(args.Entities))
	err := b.Do(p.ctx(), len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, m instanceStatusMachine) error {
		a := args.Entities[i]
		s := status.Info{Status: status.Status(a.Status), Message: a.Info, Data: a.Data, Since: now}
		if err := m.SetInstanceStatus(p.ctx(), s); err != nil {
			return err
		}
		if s.Status != status.ProvisioningError {
			return nil
		}
		s.Status = status.Error
		return m.SetStatus(p.ctx(), s)
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

// SetInstanceInfo sets the provider specific machine id, nonce, metadata and
// network info for each given machine. Once set, the instance id cannot be
// changed.
func (p *ProvisionerAPI) SetInstanceInfo(args params.InstancesInfo) (params.ErrorResults, error) {
	b := bulk[startedMachine](p, "instances")
	b.Fresh = true
	results := make([]params.ErrorResult, len(args.Machines))
	err := b.Do(p.ctx(), len(results), func(i int) string { return args.Machines[i].Tag }, func(i int, m startedMachine) error {
		return p.setInstanceInfo(m, args.Machines[i])
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

func (p *ProvisionerAPI) setInstanceInfo(m startedMachine, a params.InstanceInfo) error {
	i := Instance{ID: instance.ID(a.InstanceID), Nonce: a.Nonce, Addresses: addresses(a.NetworkConfig), Interfaces: common.Interfaces(a.NetworkConfig)}
	if err := i.takeVolumes(a); err != nil {
		return err
	}
	if a.Characteristics != nil {
		i.Hardware = *a.Characteristics
	}
	err := m.RecordInstance(p.ctx(), i)
	return errors.Annotatef(err, "cannot record provisioning info for %q", a.InstanceID)
}

// takeVolumes takes the volumes of parameters over, of which every tag is read
// first.
func (i *Instance) takeVolumes(a params.InstanceInfo) error {
	for _, v := range a.Volumes {
		if v.VolumeTag == "" {
			return errors.New("Tag is empty")
		}
		t, err := tag.ParseVolumeTag(v.VolumeTag)
		if err != nil {
			return err
		}
		i.Volumes = append(i.Volumes, MadeVolume{
			ID: t.Id(), VolumeID: v.Info.VolumeID, HardwareID: v.Info.HardwareID, Size: v.Info.Size, Persistent: v.Info.Persistent,
		})
	}
	for text, info := range a.VolumeAttachments {
		t, err := tag.ParseVolumeTag(text)
		if err != nil {
			return err
		}
		if i.Attachments == nil {
			i.Attachments = make(map[string]params.VolumeAttachmentInfo)
		}
		i.Attachments[t.Id()] = info
	}
	return nil
}

// addresses returns those of an instance's interfaces; nil if there are none.
func addresses(config []params.NetworkConfig) []network.Address {
	var out []network.Address
	for _, c := range config {
		if c.Address == "" || c.CIDR == "" {
			continue
		}
		out = append(out, network.NewAddress(c.Address))
	}
	return out
}

// MarkMachinesForRemoval has each dead machine removed, with what its provider
// still keeps of it.
func (p *ProvisionerAPI) MarkMachinesForRemoval(args params.Entities) (params.ErrorResults, error) {
	b := machinesOnly[deadMachine](p, "removal")
	b.Fresh = true
	results := make([]params.ErrorResult, len(args.Entities))
	err := b.Do(p.ctx(), len(results), texts(args), func(_ int, m deadMachine) error {
		return m.MarkForRemoval(p.ctx())
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
