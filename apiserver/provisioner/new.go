package provisioner

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/entity"
	"github.com/slipway-project/slipway/core/image"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/watcher"
)

// NewProvisionerAPI creates a new server-side ProvisionerAPI facade.
func NewProvisionerAPI(st *state.State, resources *common.Resources, authorizer common.Authorizer) (*ProvisionerAPI, error) {
	b := backend{Config: below.Config{State: st}, Site: below.Site{State: st}, st: st}
	return newAPI(Below{
		Backend:        b,
		Finder:         b,
		Addresses:      b.Site,
		Config:         b.Config,
		Binaries:       below.Binaries{Site: b.Site},
		StateAddresses: b.StateAddresses,
		AgentVersion:   b.AgentVersion,
		WatchMachines:  st.Machines().Watch,
	}, resources, authorizer)
}

// New is NewProvisionerAPI for the table of facades.
func New(st *state.State, c common.Connection) (*ProvisionerAPI, error) {
	return NewProvisionerAPI(st, c.Resources, c.Auth)
}

// backend adapts state to what the facade needs.
type backend struct {
	below.Config
	below.Site
	st *state.State
}

var (
	_ Backend             = backend{}
	_ common.EntityFinder = backend{}
)

func (b backend) ControllerUUID() string { return b.st.Controller().ControllerUUID() }

func (b backend) ControllerConfig(ctx context.Context) (map[string]any, error) {
	return b.st.Controller().ControllerConfig(ctx)
}

func (b backend) Networks(ctx context.Context) ([]network.Space, []network.Subnet, error) {
	return b.st.Networks().All(ctx)
}

func (b backend) StoragePools(ctx context.Context) ([]storage.Pool, error) {
	return b.st.Pools().All(ctx)
}

func (b backend) FindImages(ctx context.Context, f image.Filter) ([]image.Metadata, error) {
	return b.st.Images().Find(ctx, f)
}

func (b backend) Managers(ctx context.Context) ([]instance.ID, error) {
	c := b.st.Controller()
	st, err := c.State(ctx, c.ControllerModelUUID())
	if err != nil {
		return nil, errors.Trace(err)
	}
	machines, err := st.Machines().All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return instances(machines, func(m *state.Machine) bool { return m.IsManager() && m.Worker() == "" }), nil
}

func (b backend) Group(ctx context.Context, name string) ([]instance.ID, error) {
	machines, err := b.st.Machines().InGroup(ctx, name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return instances(machines, func(*state.Machine) bool { return true }), nil
}

// instances returns those of the machines that match, in the same order;
// machines without one are left out.
func instances(machines []*state.Machine, match func(*state.Machine) bool) []instance.ID {
	ids := []instance.ID{}
	for _, m := range machines {
		if !match(m) {
			continue
		}
		if id, err := m.InstanceId(); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func (b backend) Failed(ctx context.Context) ([]Failed, error) {
	machines, err := b.st.Machines().WithTransientErrors(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := make([]Failed, len(machines))
	for i, m := range machines {
		out[i] = m
	}
	return out, nil
}

func (b backend) WatchRetries(context.Context) (watcher.NotifyWatcher, error) {
	return b.st.Machines().WatchRetries(), nil
}

// FindEntities finds machines in the form that the facade needs.
func (b backend) FindEntities(ctx context.Context, tags []tag.Tag) ([]entity.Found, error) {
	found, err := b.st.FindEntities(ctx, tags)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for i := range found {
		if m, ok := found[i].Entity.(*state.Machine); ok {
			found[i].Entity = machine{m}
		}
	}
	return found, nil
}

// machine is a *state.Machine that takes the facade's form of an instance.
type machine struct{ *state.Machine }

// RecordInstance records the machine's instance.
func (m machine) RecordInstance(ctx context.Context, i Instance) error {
	info := state.InstanceInfo{ID: i.ID, Nonce: i.Nonce, Hardware: i.Hardware, Addresses: i.Addresses, Interfaces: i.Interfaces}
	for _, v := range i.Volumes {
		info.Volumes = append(info.Volumes, state.MadeVolume(v))
	}
	if len(i.Attachments) > 0 {
		info.Attachments = make(map[string]state.VolumeAttachment, len(i.Attachments))
		for id, a := range i.Attachments {
			info.Attachments[id] = state.VolumeAttachment(a)
		}
	}
	return m.SetInstanceInfo(ctx, info)
}

// WantedVolumes returns the machine's volumes that are not made yet.
func (m machine) WantedVolumes() []Volume {
	var out []Volume
	for _, v := range m.Volumes() {
		if !v.IsProvisioned() {
			out = append(out, Volume{ID: v.ID, Pool: v.Pool, Size: v.Size})
		}
	}
	return out
}

// Given returns the addresses that the container was given.
func (m machine) Given() []Given {
	var out []Given
	for _, a := range m.Allocated() {
		out = append(out, given(a))
	}
	return out
}

// Give gives the container an address.
func (m machine) Give(ctx context.Context, s network.Subnet, via network.Interface) (Given, error) {
	a, err := m.Allocate(ctx, s, via, state.Chance{MAC: newMAC, Number: rand.Uint64N})
	return given(a), err
}

func given(a state.Allocated) Given {
	return Given{Address: a.Address, MAC: a.MAC, CIDR: a.CIDR, Via: a.Interface}
}

// newMAC draws a MAC address for a container.
func newMAC() string {
	n := rand.Uint32()
	return fmt.Sprintf(MACAddressTemplate, byte(n), byte(n>>8), byte(n>>16))
}
