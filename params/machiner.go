package params

import "github.com/slipway-project/slipway/core/network"

// JobsResult holds the jobs of a machine.
type JobsResult struct {
	Jobs  []string `json:"jobs"`
	Error *Error   `json:"error,omitempty"`
}

// JobsResults are the results of Machiner.Jobs.
type JobsResults struct {
	Results []JobsResult `json:"results"`
}

// MachineAddresses holds the addresses that a machine's agent sees.
type MachineAddresses struct {
	Tag       string            `json:"tag"`
	Addresses []network.Address `json:"addresses"`
}

// SetMachinesAddresses are the parameters of Machiner.SetMachineAddresses.
type SetMachinesAddresses struct {
	MachineAddresses []MachineAddresses `json:"machine-addresses"`
}
