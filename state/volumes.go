package state

import (
	"slices"

	"github.com/juju/errors"
)

// Disks are volumes to make with a machine.
type Disks struct {
	Pool  string // or a type of storage; empty means what the model's configuration says, or else the provider's own
	Size  uint64 // MiB of each; at least 1
	Count int    // at least 1
}

// maxVolumes bounds how many volumes one machine is made with.
const maxVolumes = 64

// Volume is a volume of one machine, which is attached to no other.
type Volume struct {
	ID   string `json:"id"`             // a number that is unique in the model
	Pool string `json:"pool,omitempty"` // or a type of storage; empty means the provider's own
	Size uint64 `json:"size"`           // MiB: what was asked for, then what was made

	// Of what was made; all empty before.
	VolumeID   string `json:"volume-id,omitempty"` // the provider's
	HardwareID string `json:"hardware-id,omitempty"`
	Persistent bool   `json:"persistent,omitempty"` // whether it outlives the machine

	Attachment *VolumeAttachment `json:"attachment,omitempty"` // nil until it is attached
}

// IsProvisioned reports whether the volume has been made.
func (v Volume) IsProvisioned() bool { return v.VolumeID != "" }

// VolumeAttachment is how a machine sees a volume.
type VolumeAttachment struct {
	DeviceName string `json:"device-name,omitempty"`
	DeviceLink string `json:"device-link,omitempty"`
	BusAddress string `json:"bus-address,omitempty"`
	ReadOnly   bool   `json:"read-only,omitempty"`
}

// MadeVolume is what became of a volume.
type MadeVolume struct {
	ID         string // of the Volume
	VolumeID   string // required
	HardwareID string
	Size       uint64 // MiB
	Persistent bool
}

// Volumes returns the machine's volumes.
func (m *Machine) Volumes() []Volume { return slices.Clone(m.doc.Volumes) }

// checkDisks says what is wrong with the disks of a spec.
func (s *MachineSpec) checkDisks() error {
	total := 0
	for _, d := range s.Disks {
		switch {
		case d.Count < 1:
			return typedf(errors.NotValid, "invalid volume params: count not specified")
		case d.Size < 1:
			return typedf(errors.NotValid, "invalid volume params: size not specified")
		case d.Count > maxVolumes:
			total = maxVolumes + 1
		default:
			total += d.Count
		}
		if total > maxVolumes {
			return typedf(errors.NotValid, "more than %d volumes for one machine", maxVolumes)
		}
	}
	if total > 0 && s.ContainerType != "" {
		return typedf(errors.NotValid, "cannot add volumes to a container")
	}
	return nil
}

// volumes makes the volumes of a spec.
func (a *adder) volumes(disks []Disks) []Volume {
	var out []Volume
	for _, d := range disks {
		if d.Pool == "" {
			d.Pool = a.source
		}
		if a.pools != nil && a.pools.index(d.Pool) >= 0 {
			a.pooled = true
		}
		for range d.Count {
			out = append(out, Volume{ID: a.volumeID(), Pool: d.Pool, Size: d.Size})
		}
	}
	return out
}

// recordVolumes puts what became of volumes into a machine's document.
func (d *machineDoc) recordVolumes(machine string, made []MadeVolume, attached map[string]VolumeAttachment) error {
	if len(made) == 0 && len(attached) == 0 {
		return nil
	}
	volumes := slices.Clone(d.Volumes)
	at := func(id string) int {
		return slices.IndexFunc(volumes, func(v Volume) bool { return v.ID == id })
	}
	for _, v := range made {
		i := at(v.ID)
		if i < 0 {
			return errors.Annotatef(errors.NotFoundf("volume %q", v.ID), "cannot set info for volume %q", v.ID)
		}
		if v.VolumeID == "" {
			return typedf(errors.NotValid, "cannot set info for volume %q: volume ID not set", v.ID)
		}
		volumes[i].VolumeID, volumes[i].HardwareID, volumes[i].Persistent = v.VolumeID, v.HardwareID, v.Persistent
		if v.Size > 0 {
			volumes[i].Size = v.Size
		}
	}
	for id, a := range attached {
		i := at(id)
		if i < 0 {
			name := id + ":" + machine
			return errors.Annotatef(errors.NotFoundf("volume attachment %q", name), "cannot set info for volume attachment %s", name)
		}
		if !volumes[i].IsProvisioned() {
			return typedf(errors.NotValid, "cannot set info for volume attachment %s:%s: volume %q not provisioned", id, machine, id)
		}
		volumes[i].Attachment = &a
	}
	d.Volumes = volumes
	return nil
}
