package params

import "github.com/slipway-project/slipway/core/network"

// DeployerConnectionValues is the result of Deployer.ConnectionInfo: where the site
// can be reached, as host:port.
type DeployerConnectionValues struct {
	StateAddresses []string `json:"state-addresses"`
	APIAddresses   []string `json:"api-addresses"`
}

// MachineAddressesResult are the addresses that the provider of one machine knows.
type MachineAddressesResult struct {
	Error     *Error            `json:"error,omitempty"`
	Addresses []network.Address `json:"addresses"`
}

// MachineAddressesResults are the results of InstancePoller.ProviderAddresses.
type MachineAddressesResults struct {
	Results []MachineAddressesResult `json:"results"`
}

// BoolResults are truths about many entities.
type BoolResults struct {
	Results []BoolResult `json:"results"`
}
