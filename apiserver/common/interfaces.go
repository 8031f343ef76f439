package common

import (
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
)

// Interfaces returns the network interfaces that a configuration describes, each
// once: the first entry of a name defines it. It returns nil for none.
func Interfaces(config []params.NetworkConfig) []network.Interface {
	var out []network.Interface
	seen := make(map[string]bool, len(config))
	for _, c := range config {
		if c.InterfaceName == "" || seen[c.InterfaceName] {
			continue
		}
		seen[c.InterfaceName] = true
		out = append(out, network.Interface{
			Name: c.InterfaceName, Index: c.DeviceIndex, MAC: c.MACAddress, Type: c.InterfaceType,
			CIDR: c.CIDR, Address: c.Address, MTU: max(c.MTU, 0), ProviderID: c.ProviderID, ProviderSubnet: c.ProviderSubnetID,
			VLANTag: c.VLANTag, Disabled: c.Disabled, NoAutoStart: c.NoAutoStart, DNSServers: c.DNSServers,
		})
	}
	return out
}

// CompleteAddresses returns addresses with what their texts say, where nothing else does.
func CompleteAddresses(addresses []network.Address) []network.Address {
	out := make([]network.Address, len(addresses))
	for i, a := range addresses {
		derived := network.NewAddress(a.Value)
		if a.Type == "" {
			a.Type = derived.Type
		}
		if a.Scope == network.ScopeUnknown {
			a.Scope = derived.Scope
		}
		out[i] = a
	}
	return out
}
