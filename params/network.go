package params

import "github.com/slipway-project/slipway/core/network"

// APIHostPortsResult is the result of APIHostPorts: a list for each API server
// of where it can be reached.
type APIHostPortsResult struct {
	Servers [][]network.HostPort `json:"servers"`
}

// NetworkConfig describes one network interface with at most one address. An
// interface with several addresses has several entries of the same name; the
// first defines the device.
type NetworkConfig struct {
	DeviceIndex         int      `json:"device-index"`
	MACAddress          string   `json:"mac-address"`
	CIDR                string   `json:"cidr"`
	MTU                 int      `json:"mtu"` // bytes; 0 means unknown
	ProviderID          string   `json:"provider-id"`
	ProviderSubnetID    string   `json:"provider-subnet-id"`
	ProviderSpaceID     string   `json:"provider-space-id"`
	ProviderAddressID   string   `json:"provider-address-id"`
	ProviderVLANID      string   `json:"provider-vlan-id"`
	VLANTag             int      `json:"vlan-tag"`
	InterfaceName       string   `json:"interface-name"`
	ParentInterfaceName string   `json:"parent-interface-name"`
	InterfaceType       string   `json:"interface-type"` // ethernet, 802.1q, bond, bridge, loopback
	Disabled            bool     `json:"disabled"`
	NoAutoStart         bool     `json:"no-auto-start,omitempty"`
	ConfigType          string   `json:"config-type,omitempty"` // static, dhcp, manual, loopback
	Address             string   `json:"address,omitempty"`
	DNSServers          []string `json:"dns-servers,omitempty"`
	DNSSearchDomains    []string `json:"dns-search-domains,omitempty"`
	GatewayAddress      string   `json:"gateway-address,omitempty"`
}

// MachineNetworkConfigResult is the network configuration of one container;
// Config is null beside an error.
type MachineNetworkConfigResult struct {
	Error  *Error          `json:"error,omitempty"`
	Config []NetworkConfig `json:"info"`
}

// MachineNetworkConfigResults are the results of
// PrepareContainerInterfaceInfo and GetContainerInterfaceInfo.
type MachineNetworkConfigResults struct {
	Results []MachineNetworkConfigResult `json:"results"`
}

// SetMachineNetworkConfig is what a machine's agent saw of its network.
type SetMachineNetworkConfig struct {
	Tag    string          `json:"tag"`
	Config []NetworkConfig `json:"config"`
}
