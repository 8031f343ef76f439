package params

import (
	"time"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/network"
)

// StatusParams are the parameters of FullStatus. A machine is shown if a
// pattern matches it; no pattern shows all.
type StatusParams struct {
	Patterns []string `json:"patterns"`
}

// FullStatus is the result of FullStatus. There are no applications and no
// relations here: their keys are {} and null.
type FullStatus struct {
	Model        ModelStatusInfo          `json:"model"`
	Machines     map[string]MachineStatus `json:"machines"` // by id; top-level machines only
	Applications map[string]struct{}      `json:"applications"`
	Relations    []struct{}               `json:"relations"`
}

// ModelStatusInfo is the model's part of FullStatus. UUID is an addition of
// ours to version 1.
type ModelStatusInfo struct {
	Name             string `json:"name"`
	UUID             string `json:"uuid,omitempty"`
	CloudTag         string `json:"cloud-tag"` // "cloud-" and a name
	CloudRegion      string `json:"region,omitempty"`
	Version          string `json:"version"`
	AvailableVersion string `json:"available-version"`
	Migration        string `json:"migration,omitempty"`
}

// Base names an operating system release, such as ubuntu and 22.04/stable.
type Base struct {
	Name    string `json:"name"`
	Channel string `json:"channel"`
}

// MachineStatus is the status of a machine. Base, Constraints and Hostname are
// additions to version 1, which older clients ignore.
type MachineStatus struct {
	AgentStatus    DetailedStatus           `json:"agent-status"`
	InstanceStatus DetailedStatus           `json:"instance-status"`
	Hostname       string                   `json:"hostname,omitempty"`
	DNSName        string                   `json:"dns-name"`
	IPAddresses    []string                 `json:"ip-addresses"` // null if none
	InstanceID     string                   `json:"instance-id"`  // "pending" if there is none
	Series         string                   `json:"series"`
	Base           *Base                    `json:"base,omitempty"`
	ID             string                   `json:"id"`
	Containers     map[string]MachineStatus `json:"containers"` // by full id; never null
	Constraints    string                   `json:"constraints,omitempty"`
	Hardware       string                   `json:"hardware"` // in the grammar of core/hardware
	Jobs           []string                 `json:"jobs"`
	HasVote        bool                     `json:"has-vote"`
	WantsVote      bool                     `json:"wants-vote"`
}

// DetailedStatus is a status as people are shown it. Data holds no more than
// the key relation-id, so it is {} for machines.
type DetailedStatus struct {
	Status  string         `json:"status"`
	Info    string         `json:"info"`
	Data    map[string]any `json:"data"`
	Since   *time.Time     `json:"since"`
	Kind    string         `json:"kind"`
	Version string         `json:"version"` // of the agent
	Life    string         `json:"life"`    // empty when alive
	Err     *Error         `json:"err,omitempty"`
}

// Placement says where a machine should go: Scope is a container type with a
// machine id as directive, or the model's name or UUID with a text for the
// provider.
type Placement struct {
	Scope     string `json:"scope"`
	Directive string `json:"directive"`
}

// Disk asks for volumes. Its keys are capitalised in the protocol.
type Disk struct {
	Pool  string `json:"Pool"`
	Size  uint64 `json:"Size"` // MiB
	Count uint64 `json:"Count"`
}

// AddMachineParams describes a machine to add. Base and Group are additions of
// ours to version 1.
type AddMachineParams struct {
	Series        string                   `json:"series"`          // empty: from Base, else the model's default
	Base          *Base                    `json:"base,omitempty"`  // nil: from Series
	Group         string                   `json:"group,omitempty"` // distribution group; empty means none
	Constraints   constraints.Value        `json:"constraints"`     // merged over the model's
	Jobs          []string                 `json:"jobs"`            // JobHostUnits
	Disks         []Disk                   `json:"disks,omitempty"` //
	Placement     *Placement               `json:"placement,omitempty"`
	ParentID      string                   `json:"parent-id"`
	ContainerType string                   `json:"container-type"`
	InstanceID    string                   `json:"instance-id"` // only for machines that run already
	Nonce         string                   `json:"nonce"`       // likewise
	Hardware      hardware.Characteristics `json:"hardware-characteristics"`
	Addresses     []network.Address        `json:"addresses"`
}

// AddMachines are the parameters of AddMachines and AddMachinesV2.
type AddMachines struct {
	Machines []AddMachineParams `json:"params"`
}

// AddMachinesResult holds the id of a new machine.
type AddMachinesResult struct {
	Machine string `json:"machine"`
	Error   *Error `json:"error,omitempty"`
}

// AddMachinesResults are the results of AddMachines and AddMachinesV2.
type AddMachinesResults struct {
	Machines []AddMachinesResult `json:"machines"`
}

// DestroyMachines are the parameters of DestroyMachines: ids, not tags.
type DestroyMachines struct {
	MachineNames []string `json:"machine-names"`
	Force        bool     `json:"force"`
}

// GetConstraintsResults is the result of GetModelConstraints.
type GetConstraintsResults struct {
	Constraints constraints.Value `json:"constraints"`
}

// SetConstraints are the parameters of SetModelConstraints, which leaves
// Application empty.
type SetConstraints struct {
	Application string            `json:"application"`
	Constraints constraints.Value `json:"constraints"`
}

// SetModelAgentVersion are the parameters of SetModelAgentVersion.
type SetModelAgentVersion struct {
	Version string `json:"version"` // such as 2.0.1
	// AllowDowngrade has agents that are newer go back to the version.
	AllowDowngrade bool `json:"allow-downgrade,omitempty"`
}

// AgentVersionResult is the result of AgentVersion.
type AgentVersionResult struct {
	Version string `json:"version"`
}
