package client

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/watcher"
)

// Backend is what the facades need from below.
type Backend interface {
	Machines
	Model
	Agents
	Site
}

// Machines are the machines of the model.
type Machines interface {
	// All returns every machine and container, parents before children.
	All(ctx context.Context) ([]Machine, error)
	// Get returns the machines with these ids, one for each, nil for a missing
	// one.
	Get(ctx context.Context, ids []string) ([]Machine, error)
	// Add adds a machine for each spec, with one result for each.
	Add(ctx context.Context, specs []Spec) ([]Added, error)
	// Watch tells what changes in the model.
	Watch() ChangesWatcher
}

// Model is the model itself.
type Model interface {
	ModelUUID() string
	Info(ctx context.Context) (ModelInfo, error)
	Settings(ctx context.Context) (*config.Config, error)
	SetConstraints(ctx context.Context, c constraints.Value) error
	// CheckBlocks returns an error satisfying kind.ActionBlocked if operations
	// of one of these kinds are switched off.
	CheckBlocks(ctx context.Context, kinds ...string) error
}

// Agents are the model's agents, as far as their version goes.
type Agents interface {
	// Binaries returns every agent binary that the site keeps.
	Binaries(ctx context.Context) ([]common.Binary, error)
	// SetAgentVersion says which version agents are to run. Those that are newer
	// stay, or go back if downgrade says so.
	SetAgentVersion(ctx context.Context, version string, downgrade bool) error
}

// The kinds of blocks that hold up removals. Those of other changes are heeded in
// front of the facades.
const (
	blockChange = "BlockChange"
	blockRemove = "BlockRemove"
)

// Site is what the whole site has in common.
type Site interface {
	ControllerUUID() string
	APIHostPorts(ctx context.Context) ([][]network.HostPort, error)
}

// ModelInfo describes the model.
type ModelInfo struct {
	Name         string
	Owner        string // a user's name
	Life         life.Value
	IsController bool
	Constraints  constraints.Value
	Users        map[string]access.Model
}

// Machine is a machine or container, as it was when it was read.
type Machine interface {
	common.StatusHolder
	Identity
	System
	Instanced
	Addressed
	Destroyer
}

// Identity is what a machine is in the model.
type Identity interface {
	Id() string
	Life() life.Value
	ParentId() string
	ContainerType() container.Type
	Jobs() []job.Job
}

// System is what runs on a machine.
type System interface {
	Series() string
	Base() base.Base
	AgentVersion() string
	SupportedContainers() (types []container.Type, known bool)
	Status() status.Info
}

// Instanced is a machine's instance, and what was asked of it.
type Instanced interface {
	IsProvisioned() bool
	InstanceId() (instance.ID, error)
	InstanceStatus() status.Info
	Hardware() (hardware.Characteristics, error)
	Constraints() constraints.Value
}

// Addressed is where a machine can be reached.
type Addressed interface {
	Hostname() string
	Addresses() []network.Address
	PublicAddress() (network.Address, bool)
}

// Destroyer is how a machine ends.
type Destroyer interface {
	Destroy(ctx context.Context) error
	ForceDestroy(ctx context.Context) error
}

// Spec says what machine to add.
type Spec struct {
	Series        string
	Base          base.Base // zero if only the series is known
	Jobs          []job.Job
	Constraints   constraints.Value
	Placement     string // in the provider's words
	Group         string
	ContainerType container.Type
	Parent        string
	InstanceID    instance.ID
	Nonce         string
	Hardware      hardware.Characteristics
	Addresses     []network.Address
	Disks         []Disks
}

// Disks are volumes to make with a machine.
type Disks struct {
	Pool  string // or a type of storage; empty means what the model's configuration says, or else the provider's own
	Size  uint64 // MiB of each
	Count int
}

// Added is the id of a new machine, or why there is none.
type Added struct {
	ID  string
	Err error
}

// Changes says what has changed in the model.
type Changes struct {
	All      bool     // anything may have
	Model    bool     // the model or its configuration
	Machines []string // ids, removed ones too
}

// ChangesWatcher tells what changes in the model. Its first event says All.
type ChangesWatcher interface {
	watcher.Watcher
	Changes() <-chan Changes
}
