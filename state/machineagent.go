package state

import (
	"context"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// InstanceInfo is what is recorded of a machine that got its instance.
type InstanceInfo struct {
	ID        instance.ID // required
	Nonce     string      // required; the agent shows it at login
	Hardware  hardware.Characteristics
	Addresses []network.Address // known to the provider already; nil leaves those recorded

	Interfaces  []network.Interface         // nil leaves those recorded
	Volumes     []MadeVolume                // of the machine's
	Attachments map[string]VolumeAttachment // of those, by id
}

// SetInstanceInfo records the machine's instance, which is possible once in its
// life: afterwards it returns an error satisfying ErrAlreadySet, even for the
// same values. It returns one satisfying ErrNotAlive if the machine is not
// alive, and errors.NotValid without an id or a nonce. What is wrong with a
// volume is told first: errors.NotFound if the machine has no such volume, and
// errors.NotValid for one that was not made.
func (m *Machine) SetInstanceInfo(ctx context.Context, info InstanceInfo) error {
	var volumes error // what is wrong with them
	err := m.setInstanceInfo(ctx, info, &volumes)
	if volumes != nil {
		return volumes
	}
	return errors.Annotatef(err, "cannot set instance data for machine %q", m.id)
}

func (m *Machine) setInstanceInfo(ctx context.Context, info InstanceInfo, volumes *error) error {
	if len(info.Volumes) == 0 && (info.ID == "" || info.Nonce == "") {
		return errNoInstance
	}
	return m.updateIn(ctx, life.Alive, func(d *machineDoc) error {
		if *volumes = d.recordVolumes(m.id, info.Volumes, info.Attachments); *volumes != nil {
			return *volumes
		}
		if info.ID == "" || info.Nonce == "" {
			return errNoInstance
		}
		if d.Instance != nil {
			return ErrAlreadySet
		}
		d.Instance = &instanceDoc{ID: info.ID, Nonce: info.Nonce, Hardware: info.Hardware}
		if info.Addresses != nil {
			d.setAddresses(withSpaces(info.Addresses, d.ProviderAddresses), d.MachineAddresses)
		}
		if info.Interfaces != nil {
			d.Interfaces = info.Interfaces
		}
		return nil
	})
}

// withSpaces returns addresses with the spaces of those that are known already:
// what a provider tells has none, and addresses given to containers do.
func withSpaces(addresses, known []network.Address) []network.Address {
	out := slices.Clone(addresses)
	for i, a := range out {
		n := slices.IndexFunc(known, func(k network.Address) bool { return k.Value == a.Value })
		if a.SpaceName == "" && n >= 0 {
			out[i].SpaceName = known[n].SpaceName
		}
	}
	return out
}

// errNoInstance says that an instance was not named.
var errNoInstance = typedf(errors.NotValid, "instance id and nonce cannot be empty")

// updateIn is update for changes that are refused after a life: it returns
// ErrNotAlive or kind.Dead if the machine is past latest, or gone.
func (m *Machine) updateIn(ctx context.Context, latest life.Value, change func(*machineDoc) error) error {
	refused := kind.Dead
	if latest == life.Alive {
		refused = ErrNotAlive
	}
	err := m.update(ctx, func(d *machineDoc) error {
		if latest.Before(d.Life) {
			return refused
		}
		return change(d)
	})
	if errors.Is(err, errors.NotFound) {
		return refused
	}
	return err
}

// SetConstraints replaces the machine's constraints; the model's are not merged
// in. It returns an error satisfying ErrNotAlive if the machine is not alive,
// and errors.NotValid if it is provisioned.
func (m *Machine) SetConstraints(ctx context.Context, c constraints.Value) error {
	err := m.updateIn(ctx, life.Alive, func(d *machineDoc) error {
		if d.Instance != nil {
			return typedf(errors.NotValid, "machine is already provisioned")
		}
		c.Container = nil
		d.Constraints = c
		return nil
	})
	return errors.Annotate(err, "cannot set constraints")
}

// MinAgentPassword is how many bytes an agent's password has at least. It is
// hashed without salt, so it must be random.
const MinAgentPassword = 24

// SetPassword sets the password with which the machine's agent logs in; the one
// before ends with it. It returns an error satisfying errors.NotValid for one of
// fewer than MinAgentPassword bytes. For a machine that is gone or dead the
// error has no kind.
func (m *Machine) SetPassword(ctx context.Context, password string) error {
	if len(password) < MinAgentPassword {
		return typedf(errors.NotValid,
			"password is only %d bytes long, and is not a valid Agent password", len(password))
	}
	hash := agentHash(password)
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		d.PasswordHash = hash
		return nil
	})
	if errors.Is(err, kind.Dead) {
		return errors.Errorf("cannot set password of machine %s: %v", m.id, err)
	}
	return errors.Annotatef(err, "cannot set password of machine %s", m.id)
}

// PasswordValid reports whether password is the one that the machine's agent has.
func (m *Machine) PasswordValid(password string) bool {
	return m.doc.PasswordHash != "" &&
		subtle.ConstantTimeCompare([]byte(m.doc.PasswordHash), []byte(agentHash(password))) == 1
}

// agentHash returns the hash that is kept of an agent's password: the first 18
// bytes of its SHA-512, in base64. The password has too much randomness in it
// for guessing, so the hash need not be slow.
func agentHash(password string) string {
	sum := sha512.Sum512([]byte(password))
	return base64.StdEncoding.EncodeToString(sum[:18])
}

// SetHostname records the name that the machine's agent reports.
func (m *Machine) SetHostname(ctx context.Context, name string) error {
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		if d.Hostname == name {
			return errNoChange
		}
		d.Hostname = name
		return nil
	})
	return errors.Annotatef(err, "cannot set host name of machine %s", m.id)
}

// SetAgentVersion records the version of the machine's agent, such as
// 2.0.0-xenial-amd64. It returns an error satisfying kind.Dead for a dead machine.
func (m *Machine) SetAgentVersion(ctx context.Context, version string) error {
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		if d.AgentVersion == version {
			return errNoChange
		}
		d.AgentVersion = version
		return nil
	})
	return errors.Annotatef(err, "cannot set agent version of machine %s", m.id)
}

// SetAgentStarted records when the machine's agent started.
func (m *Machine) SetAgentStarted(ctx context.Context, at time.Time) error {
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		d.AgentStarted = at.UTC().Round(0)
		return nil
	})
	return errors.Annotatef(err, "cannot set agent start of machine %s", m.id)
}

// SetSupportedContainers records which container types the machine can host, at
// least one. Its direct containers of other types that are still pending get
// status error in the same batch. It returns an error satisfying errors.NotValid
// for type none, and kind.Dead, unannotated, for a dead machine.
func (m *Machine) SetSupportedContainers(ctx context.Context, types []container.Type) error {
	if len(types) == 0 {
		return typedf(errors.NotValid, "at least one valid container type is required")
	}
	if slices.Contains(types, container.None) {
		return typedf(errors.NotValid, "%q is not a valid container type", container.None)
	}
	return m.setContainerTypes(ctx, types)
}

// SetNoSupportedContainers records that the machine can host no containers. It
// is otherwise like SetSupportedContainers.
func (m *Machine) SetNoSupportedContainers(ctx context.Context) error {
	return m.setContainerTypes(ctx, nil)
}

func (m *Machine) setContainerTypes(ctx context.Context, types []container.Type) error {
	now := m.st.c.now()
	return m.run(ctx, func(int) ([]store.Op, error) {
		fresh, err := m.st.machine(ctx, m.id)
		if errors.Is(err, errors.NotFound) {
			return nil, kind.Dead
		}
		if err != nil {
			return nil, errors.Trace(err)
		}
		if fresh.doc.Life == life.Dead {
			return nil, kind.Dead
		}
		d := *fresh.doc
		d.ContainersKnown, d.ContainerTypes = true, types
		refusals, err := m.refuseContainers(ctx, &d, now)
		if err != nil {
			return nil, errors.Trace(err)
		}
		if len(refusals) == 0 && fresh.doc.ContainersKnown && slices.Equal(fresh.doc.ContainerTypes, types) {
			return nil, nil // agents say so at each connection
		}
		op, err := m.st.machineOp(m.id, fresh.rev, &d)
		return append(refusals, op), err
	})
}

// refuseContainers returns the operations that put an error on every pending
// direct container which host cannot hold.
func (m *Machine) refuseContainers(ctx context.Context, host *machineDoc, now time.Time) ([]store.Op, error) {
	var keys []store.Key
	for _, id := range host.Containers {
		if !slices.Contains(host.ContainerTypes, tag.ContainerType(id)) {
			keys = append(keys, m.st.key(machinesC, id), m.st.key(historyC, id))
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	docs, err := m.st.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get containers of machine %s", m.id)
	}
	var ops []store.Op
	for pair := range slices.Chunk(docs, 2) {
		if pair[0].Rev == 0 {
			continue
		}
		c, err := m.st.decodeMachine(pair[0])
		if err != nil {
			return nil, errors.Trace(err)
		}
		if c.doc.Status.Status != status.Pending {
			continue
		}
		more, err := c.statusOps(pair, c.doc, "machine", statusDoc{Status: status.Error, Message: "unsupported container",
			Data: map[string]any{"type": string(c.ContainerType())}, Since: now})
		if err != nil {
			return nil, errors.Trace(err)
		}
		ops = append(ops, more...)
	}
	return ops, nil
}
