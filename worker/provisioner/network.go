package provisioner

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
)

// Allocator gives containers the addresses that the controller keeps;
// *apiprovisioner.Client does. Where the site gives none, each of its calls fails
// with errors.NotSupported.
type Allocator interface {
	// PrepareContainerInterfaceInfo gives addresses to containers that are to be
	// started. One that was given an address keeps it.
	PrepareContainerInterfaceInfo(ctx context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error)
	// GetContainerInterfaceInfo returns what containers were given.
	GetContainerInterfaceInfo(ctx context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error)
	// ReleaseContainerAddresses takes them back.
	ReleaseContainerAddresses(ctx context.Context, ids ...string) ([]error, error)
}

var _ Allocator = (*apiprovisioner.Client)(nil)

// allocate has containers that are to be started given their addresses, and returns
// those for which that went well, or for which nobody gives any. It reports the
// others: they are tried again for as long as it takes, since a range has room
// again, or a subnet is known, when somebody else has done something.
func (t *task) allocate(ctx context.Context, batch []attempt) []attempt {
	if t.cfg.network == nil || len(batch) == 0 {
		return batch
	}
	ids := make([]string, len(batch))
	for i, a := range batch {
		ids[i] = a.id
	}
	given, err := t.cfg.network.PrepareContainerInterfaceInfo(ctx, ids...)
	if errors.Is(err, errors.NotSupported) {
		return batch
	}
	var good []attempt
	for i, a := range batch {
		failure := err
		if failure == nil {
			failure = given[i].Err
		}
		if failure != nil {
			t.report(a, environs.StartInstanceResult{}, ofController(failure))
			continue
		}
		a.network = given[i].Value
		good = append(good, a)
	}
	return good
}

// recall asks which addresses containers were given that an earlier attempt
// started. Without an answer, what their provider says of them is recorded.
func (t *task) recall(ctx context.Context, batch []started) {
	var ids []string
	var at []int
	for i, s := range batch {
		if t.cfg.network != nil && s.adopted {
			ids, at = append(ids, s.m.id), append(at, i)
		}
	}
	if len(ids) == 0 {
		return
	}
	given, err := t.cfg.network.GetContainerInterfaceInfo(ctx, ids...)
	if err != nil {
		if !errors.Is(err, errors.NotSupported) {
			logger.Warningf("cannot ask for the addresses of containers that were started earlier: %v", err)
		}
		return
	}
	for n, i := range at {
		if given[n].Err == nil {
			batch[i].network = given[n].Value
		}
	}
}

// release gives back the addresses of containers that have been seen out. A failure
// holds nothing up: the controller takes back what a container that it removes
// still has.
func (t *task) release(ctx context.Context, ids []string) {
	if t.cfg.network == nil {
		return
	}
	errs, err := t.cfg.network.ReleaseContainerAddresses(ctx, ids...)
	if err != nil && !errors.Is(err, errors.NotSupported) {
		logger.Warningf("cannot release the addresses of containers, which their removal does as well: %v", err)
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, errors.NotFound) {
			logger.Warningf("cannot release the addresses of container %s, which its removal does as well: %v", ids[i], err)
		}
	}
}

// interfaces returns what a container was given as its provider takes it.
func interfaces(given []params.NetworkConfig) []network.Interface {
	var out []network.Interface
	for _, c := range given {
		out = append(out, network.Interface{
			Name: c.InterfaceName, Index: c.DeviceIndex, MAC: c.MACAddress, Type: c.InterfaceType,
			CIDR: c.CIDR, Address: c.Address, Gateway: c.GatewayAddress, MTU: c.MTU, ProviderID: c.ProviderID,
			ProviderSubnet: c.ProviderSubnetID, VLANTag: c.VLANTag, Disabled: c.Disabled, NoAutoStart: c.NoAutoStart,
			DNSServers: c.DNSServers,
		})
	}
	return out
}

// networkConfig returns the network of an instance as the controller takes it:
// what it was given, and then the other addresses that its provider knows. It
// returns nil if there is nothing.
func networkConfig(s started) []params.NetworkConfig {
	out := slices.Clone(s.network)
	for n, a := range s.instance.Addresses {
		if slices.ContainsFunc(s.network, func(c params.NetworkConfig) bool { return c.Address == a.Value }) {
			continue
		}
		n += len(s.network)
		out = append(out, params.NetworkConfig{
			DeviceIndex: n, InterfaceName: fmt.Sprintf("eth%d", n), InterfaceType: "ethernet",
			ConfigType: "static", Address: a.Value, CIDR: hostCIDR(a.Value),
		})
	}
	return out
}

// hostCIDR returns the network that holds one address and no other, which is
// all that is known of it; empty for a host name.
func hostCIDR(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	return netip.PrefixFrom(ip, ip.BitLen()).String()
}
