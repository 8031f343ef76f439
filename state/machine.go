package state

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// Machine is a machine or container of a model, as it was when it was read.
type Machine struct {
	st  *State
	id  string
	rev store.Rev
	doc *machineDoc
}

// Id returns the machine's id, such as 3 or 3/lxd/0.
func (m *Machine) Id() string { return m.id }

// Tag returns the machine's tag.
func (m *Machine) Tag() tag.Tag { return tag.NewMachineTag(m.id) }

// Life returns where the machine stands between creation and end.
func (m *Machine) Life() life.Value { return m.doc.Life }

// Created returns when the machine was added.
func (m *Machine) Created() time.Time { return m.doc.Created }

// Series returns the operating system's series, such as jammy.
func (m *Machine) Series() string { return m.doc.Series }

// Base returns the operating system; zero if only a series was asked for and that is
// not known.
func (m *Machine) Base() base.Base {
	if !m.doc.Base.IsZero() {
		return m.doc.Base
	}
	b, err := base.FromSeries(m.doc.Series)
	if err != nil {
		return base.Base{}
	}
	return b
}

// Jobs returns what the machine is for.
func (m *Machine) Jobs() []job.Job { return slices.Clone(m.doc.Jobs) }

// IsManager reports whether the machine manages the model.
func (m *Machine) IsManager() bool { return m.doc.isManager() }

// Worker returns the name of the further worker identity that this machine
// stands for, or "" for a machine proper.
func (m *Machine) Worker() string { return m.doc.Worker }

// Constraints returns what the machine must be like, merged with the model's
// constraints as they were when it was added.
func (m *Machine) Constraints() constraints.Value { return m.doc.Constraints }

// Placement returns where the machine was asked to be, in the provider's
// words; empty means anywhere.
func (m *Machine) Placement() string { return m.doc.Placement }

// Group returns the name of the machine's distribution group; empty means none.
func (m *Machine) Group() string { return m.doc.Group }

// ContainerType returns the type of the container, or "" for a top-level machine.
func (m *Machine) ContainerType() container.Type { return tag.ContainerType(m.id) }

// ParentId returns the id of the container's host, or "" for a top-level
// machine.
func (m *Machine) ParentId() string { return tag.Parent(m.id) }

// IsContainer reports whether another machine hosts this one.
func (m *Machine) IsContainer() bool { return m.ParentId() != "" }

// Containers returns the ids of the direct containers that have not been
// removed, in the order of tag.CompareMachines.
func (m *Machine) Containers() []string {
	ids := slices.Clone(m.doc.Containers)
	tag.SortMachines(ids)
	return ids
}

// SupportedContainers returns the container types that the machine can host;
// known is false as long as it has not said.
func (m *Machine) SupportedContainers() (types []container.Type, known bool) {
	return slices.Clone(m.doc.ContainerTypes), m.doc.ContainersKnown
}

// IsProvisioned reports whether an instance has been recorded.
func (m *Machine) IsProvisioned() bool { return m.doc.Instance != nil }

// InstanceId returns the id of the machine's instance, or an error satisfying
// errors.NotProvisioned.
func (m *Machine) InstanceId() (instance.ID, error) {
	if m.doc.Instance == nil {
		return "", errors.NotProvisionedf("machine %s", m.id)
	}
	return m.doc.Instance.ID, nil
}

// Hardware returns what the instance turned out to be like, or an error
// satisfying errors.NotFound before there is one.
func (m *Machine) Hardware() (hardware.Characteristics, error) {
	if m.doc.Instance == nil {
		return hardware.Characteristics{}, errors.NotFoundf("instance data for machine %s", m.id)
	}
	return m.doc.Instance.Hardware, nil
}

// Nonce returns what was recorded when the machine was provisioned; empty before.
func (m *Machine) Nonce() string {
	if m.doc.Instance == nil {
		return ""
	}
	return m.doc.Instance.Nonce
}

// CheckProvisioned reports whether the machine was provisioned with this nonce.
// It is false for an empty nonce.
func (m *Machine) CheckProvisioned(nonce string) bool {
	return nonce != "" && m.doc.Instance != nil && m.doc.Instance.Nonce == nonce
}

// Status returns what the machine's agent reported last.
func (m *Machine) Status() status.Info { return m.doc.Status.info() }

// InstanceStatus returns what the provisioner reported last of the instance.
func (m *Machine) InstanceStatus() status.Info { return m.doc.InstanceStatus.info() }

// Hostname returns the name that the machine's agent reported; empty if none.
func (m *Machine) Hostname() string { return m.doc.Hostname }

// AgentVersion returns the version that the machine's agent reported, such as
// 2.0.0-xenial-amd64; empty if none.
func (m *Machine) AgentVersion() string { return m.doc.AgentVersion }

// ModelUUID returns the UUID of the machine's model.
func (m *Machine) ModelUUID() string { return m.st.modelUUID }

// Refresh reads the machine again. It returns an error satisfying
// errors.NotFound if the machine has been removed.
func (m *Machine) Refresh(ctx context.Context) error {
	fresh, err := m.st.machine(ctx, m.id)
	if err != nil {
		return errors.Trace(err)
	}
	m.rev, m.doc = fresh.rev, fresh.doc
	return nil
}
