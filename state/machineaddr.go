package state

import (
	"context"
	"reflect"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
)

// Addresses returns every address of the machine, once: those that the provider
// knows first.
func (m *Machine) Addresses() []network.Address {
	return network.Merge(m.doc.ProviderAddresses, m.doc.MachineAddresses)
}

// ProviderAddresses returns the addresses that the provider knows.
func (m *Machine) ProviderAddresses() []network.Address { return slices.Clone(m.doc.ProviderAddresses) }

// MachineAddresses returns the addresses that the machine's agent reported.
func (m *Machine) MachineAddresses() []network.Address { return slices.Clone(m.doc.MachineAddresses) }

// PublicAddress returns the address under which people reach the machine, and
// whether there is one. It stays the same as long as the machine has it.
func (m *Machine) PublicAddress() (network.Address, bool) {
	return m.doc.Public, m.doc.Public.Value != ""
}

// PrivateAddress returns the address under which other machines reach this one,
// and whether there is one. It stays the same as long as the machine has it.
func (m *Machine) PrivateAddress() (network.Address, bool) {
	return m.doc.Private, m.doc.Private.Value != ""
}

// SetProviderAddresses replaces the addresses that the provider knows. It
// returns an error satisfying kind.Dead for a dead machine.
func (m *Machine) SetProviderAddresses(ctx context.Context, addresses []network.Address) error {
	return m.setAddresses(ctx, func(d *machineDoc) {
		d.setAddresses(addresses, d.MachineAddresses)
	})
}

// SetMachineAddresses replaces the addresses that the machine's agent reported.
// It returns an error satisfying kind.Dead for a dead machine.
func (m *Machine) SetMachineAddresses(ctx context.Context, addresses []network.Address) error {
	return m.setAddresses(ctx, func(d *machineDoc) {
		d.setAddresses(d.ProviderAddresses, addresses)
	})
}

// Interfaces returns the machine's network interfaces, as its provider or its
// agent told last.
func (m *Machine) Interfaces() []network.Interface { return slices.Clone(m.doc.Interfaces) }

// SetInterfaces replaces the machine's network interfaces, and the addresses that
// its agent reported with theirs. It returns an error satisfying kind.Dead for a
// dead machine.
func (m *Machine) SetInterfaces(ctx context.Context, list []network.Interface) error {
	addresses := []network.Address{}
	for _, i := range list {
		if i.Address != "" {
			addresses = append(addresses, network.NewAddress(i.Address))
		}
	}
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		if reflect.DeepEqual(d.Interfaces, list) && slices.Equal(d.MachineAddresses, addresses) {
			return errNoChange
		}
		d.Interfaces = list
		d.setAddresses(d.ProviderAddresses, addresses)
		return nil
	})
	return errors.Annotatef(err, "cannot set network interfaces of machine %s", m.id)
}

func (m *Machine) setAddresses(ctx context.Context, change func(*machineDoc)) error {
	err := m.updateIn(ctx, life.Dying, func(d *machineDoc) error {
		old := *d
		change(d)
		if slices.Equal(old.ProviderAddresses, d.ProviderAddresses) &&
			slices.Equal(old.MachineAddresses, d.MachineAddresses) {
			return errNoChange
		}
		return nil
	})
	return errors.Annotatef(err, "cannot set addresses of machine %s", m.id)
}

// setAddresses sets both sets of addresses. A preferred address is chosen anew only when
// the one chosen before is gone, or one of a better scope has come.
func (d *machineDoc) setAddresses(provider, machine []network.Address) {
	d.ProviderAddresses, d.MachineAddresses = slices.Clone(provider), slices.Clone(machine)
	all := network.Merge(provider, machine)
	d.Public = keepPreferred(d.Public, all, network.PreferredPublic)
	d.Private = keepPreferred(d.Private, all, network.PreferredPrivate)
}

// keepPreferred returns the preferred address of all, or current if that is still
// there and as good.
func keepPreferred(current network.Address, all []network.Address,
	choose func([]network.Address) (network.Address, bool)) network.Address {
	best, ok := choose(all)
	if ok && current.Scope == best.Scope && current.Type == best.Type && slices.Contains(all, current) {
		return current
	}
	return best
}
