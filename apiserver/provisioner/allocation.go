package provisioner

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
)

// The setting of the site that lists features, and the feature that containers
// are given addresses.
const (
	featuresKey       = "features"
	addressAllocation = "address-allocation"
)

// errNoAllocation answers the methods about addresses of containers while the
// site does not give any.
var errNoAllocation = errors.NotSupportedf("container address allocation")

// checkAllocation returns errNoAllocation unless the feature is on.
func (p *ProvisionerAPI) checkAllocation() error {
	attrs, err := p.backend.ControllerConfig(p.ctx())
	if err != nil {
		return errors.Trace(err)
	}
	features, _ := attrs[featuresKey].([]any)
	if !slices.Contains(features, any(addressAllocation)) {
		return errNoAllocation
	}
	return nil
}

// PrepareContainerInterfaceInfo allocates an address and returns information to
// configure networking for a container. It accepts container tags as arguments. If
// the address allocation feature flag is not enabled, it returns a NotSupported
// error.
func (p *ProvisionerAPI) PrepareContainerInterfaceInfo(args params.Entities) (
	params.MachineNetworkConfigResults,
	error,
) {
	return p.interfaces(args, true)
}

// GetContainerInterfaceInfo returns information to configure networking for a
// container. It accepts container tags as arguments. If the address allocation
// feature flag is not enabled, it returns a NotSupported error.
func (p *ProvisionerAPI) GetContainerInterfaceInfo(args params.Entities) (
	params.MachineNetworkConfigResults,
	error,
) {
	return p.interfaces(args, false)
}

// interfaces returns how containers of the caller's machine reach the network:
// with addresses that they are given now, or those that they were.
func (p *ProvisionerAPI) interfaces(args params.Entities, give bool) (params.MachineNetworkConfigResults, error) {
	none := params.MachineNetworkConfigResults{}
	if err := p.checkAllocation(); err != nil {
		return none, err
	}
	host, err := p.host()
	if err != nil {
		return none, err
	}
	if _, err := host.InstanceId(); err != nil {
		return none, errors.WithType(errors.Errorf("cannot allocate addresses: host machine %q not provisioned", host.Id()), errors.NotProvisioned)
	}
	_, subnets, err := p.backend.Networks(p.ctx())
	if err != nil {
		return none, errors.Trace(err)
	}
	var way route
	if give {
		if way, err = routeOf(interfacesOf(host), subnets); err != nil {
			return none, errors.Annotate(err, "cannot allocate addresses")
		}
	}
	b := bulk[allocatedMachine](p, "addresses")
	b.Parse, b.Fresh = common.ParseMachine, true
	results := make([]params.MachineNetworkConfigResult, len(args.Entities))
	err = b.Do(p.ctx(), len(results), texts(args), func(i int, m allocatedMachine) (err error) {
		if !m.IsContainer() {
			return errors.Errorf("cannot allocate address for %q: not a container", machineTag(m.Id()))
		}
		if give {
			results[i].Config, err = p.give(m, way)
		} else {
			results[i].Config, err = configOf(m, subnets)
		}
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.MachineNetworkConfigResults{Results: results}, err
}

// host returns the caller's own machine.
func (p *ProvisionerAPI) host() (networkedMachine, error) {
	own := p.authorizer.AuthTag()
	if own == nil {
		return nil, common.ErrPerm
	}
	var host networkedMachine
	var failure *params.Error
	b := machinesOnly[networkedMachine](p, "networks")
	err := b.Do(p.ctx(), 1, func(int) string { return own.String() }, func(_ int, m networkedMachine) error {
		host = m
		return nil
	}, func(_ int, err *params.Error) { failure = err })
	switch {
	case err != nil:
		return nil, errors.Trace(err)
	case failure != nil:
		return nil, failure
	}
	return host, nil
}

// route is how containers of a host reach the network.
type route struct {
	via    network.Interface
	subnet network.Subnet
}

// interfacesOf returns a host's interfaces, and behind them one for each address
// of which nothing but itself is known: most agents tell no more.
func interfacesOf(host networkedMachine) []network.Interface {
	out := host.Interfaces()
	for _, a := range host.Addresses() {
		known := func(i network.Interface) bool { return i.Address == a.Value }
		if a.Type == network.IPv4 && !slices.ContainsFunc(out, known) {
			out = append(out, network.Interface{Name: fmt.Sprintf("eth%d", len(out)), Index: len(out), Address: a.Value})
		}
	}
	return out
}

// routeOf returns the first of a host's interfaces that leads to a subnet with
// addresses for containers.
func routeOf(interfaces []network.Interface, subnets []network.Subnet) (route, error) {
	if len(interfaces) == 0 {
		return route{}, errors.New("no interfaces available")
	}
	var known []route
	for _, i := range interfaces {
		if s := subnetOf(i, subnets); s != nil && !i.Disabled {
			known = append(known, route{i, *s})
		}
	}
	if len(known) == 0 {
		return route{}, errors.New("no subnets available")
	}
	for _, r := range known {
		if low, err := netip.ParseAddr(r.subnet.Low); err == nil && low.Is4() {
			return r, nil
		}
	}
	return route{}, errors.WithType(errors.New("address allocation on any available subnets is not supported"), errors.NotSupported)
}

// subnetOf returns the subnet that an interface leads to; nil if it is not known.
func subnetOf(i network.Interface, subnets []network.Subnet) *network.Subnet {
	for n, s := range subnets {
		if i.CIDR != "" && i.CIDR == s.CIDR || i.ProviderSubnet != "" && i.ProviderSubnet == s.ProviderID || placed(i, s) {
			return &subnets[n]
		}
	}
	return nil
}

// placed reports whether an interface is in a subnet by its address, where nobody
// told how large its network is.
func placed(i network.Interface, s network.Subnet) bool {
	address, err := netip.ParseAddr(i.Address)
	if err != nil || i.CIDR != "" && i.CIDR != netip.PrefixFrom(address, address.BitLen()).String() {
		return false
	}
	subnet, err := network.ParseCIDR(s.CIDR)
	return err == nil && subnet.Contains(address)
}

// give gives a container that has no instance yet an address.
func (p *ProvisionerAPI) give(m allocatedMachine, way route) ([]params.NetworkConfig, error) {
	if id, err := m.InstanceId(); err == nil {
		return nil, errors.Errorf("container %q already provisioned as %q", m.Id(), id)
	}
	given, err := m.Give(p.ctx(), way.subnet, way.via)
	if err != nil {
		return nil, err
	}
	return []params.NetworkConfig{interfaceOf(given, way.subnet)}, nil
}

// configOf returns the address that a container was given before.
func configOf(m allocatedMachine, subnets []network.Subnet) ([]params.NetworkConfig, error) {
	given := m.Given()
	if len(given) != 1 {
		return nil, errors.Errorf("cannot get address of %q: it has %d allocated addresses, not one", machineTag(m.Id()), len(given))
	}
	subnet := network.Subnet{CIDR: given[0].CIDR}
	for _, s := range subnets {
		if s.CIDR == subnet.CIDR {
			subnet = s
		}
	}
	return []params.NetworkConfig{interfaceOf(given[0], subnet)}, nil
}

// interfaceOf describes the one interface of a container with an address.
func interfaceOf(g Given, s network.Subnet) params.NetworkConfig {
	kind := g.Via.Type
	if kind == "" {
		kind = "ethernet"
	}
	return params.NetworkConfig{
		DeviceIndex: g.Via.Index, MACAddress: g.MAC, CIDR: g.CIDR, MTU: g.Via.MTU, ProviderID: g.Via.ProviderID,
		ProviderSubnetID: s.ProviderID, VLANTag: g.Via.VLANTag, InterfaceName: g.Via.Name, InterfaceType: kind,
		Disabled: g.Via.Disabled, NoAutoStart: g.Via.NoAutoStart, ConfigType: "static", Address: g.Address,
		DNSServers: g.Via.DNSServers, GatewayAddress: g.Via.Address,
	}
}

// ReleaseContainerAddresses finds addresses allocated to a container and marks
// them as Dead, to be released and removed. It accepts container tags as
// arguments. If address allocation feature flag is not enabled, it will return a
// NotSupported error.
func (p *ProvisionerAPI) ReleaseContainerAddresses(args params.Entities) (params.ErrorResults, error) {
	if err := p.checkAllocation(); err != nil {
		return params.ErrorResults{}, err
	}
	b := bulk[allocatedMachine](p, "addresses")
	b.Fresh = true
	results := make([]params.ErrorResult, len(args.Entities))
	err := b.Do(p.ctx(), len(results), texts(args), func(_ int, m allocatedMachine) error {
		if !m.IsContainer() {
			return errors.Errorf("cannot mark addresses for removal for %q: not a container", machineTag(m.Id()))
		}
		return m.ReleaseAddresses(p.ctx())
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
