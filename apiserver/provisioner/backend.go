package provisioner

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/image"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Below is everything that the facade is built on.
type Below struct {
	Backend        Backend
	Finder         common.EntityFinder
	Addresses      common.APIAddresses
	Config         common.ModelConfigs
	Binaries       common.Binaries
	StateAddresses func(ctx context.Context) ([]string, error)
	AgentVersion   func(ctx context.Context) (string, error) // that the model's agents should run
	WatchMachines  func(ctx context.Context) (watcher.StringsWatcher, error)
}

// Backend is what the facade needs of the model, beside its machines.
type Backend interface {
	Model
	Groups
	Retries
	Networks
	Images
	StoragePools
}

// Networks are the networks that the model knows.
type Networks interface {
	// Networks returns every space and subnet.
	Networks(ctx context.Context) ([]network.Space, []network.Subnet, error)
}

// Images are the images that the model knows.
type Images interface {
	// FindImages returns those that fit, the lowest priority first.
	FindImages(ctx context.Context, f image.Filter) ([]image.Metadata, error)
}

// StoragePools are the places for volumes that the model knows.
type StoragePools interface {
	// StoragePools returns every storage pool.
	StoragePools(ctx context.Context) ([]storage.Pool, error)
}

// Model is what the facade tells of the model and the site.
type Model interface {
	ModelUUID() string
	ControllerUUID() string
	ControllerConfig(ctx context.Context) (map[string]any, error)
	Settings(ctx context.Context) (*config.Config, error)
}

// Groups are the instances that are to be kept apart.
type Groups interface {
	// Managers returns the provisioned machines that run the site, in the
	// order of their ids.
	Managers(ctx context.Context) ([]instance.ID, error)
	// Group returns the provisioned machines of a distribution group.
	Group(ctx context.Context, name string) ([]instance.ID, error)
}

// Retries are machines whose start failed and may be tried again.
type Retries interface {
	// Failed returns the machines with transient errors, in the order of their
	// ids.
	Failed(ctx context.Context) ([]Failed, error)
	// WatchRetries tells when somebody has asked for a machine to be tried
	// again.
	WatchRetries(ctx context.Context) (watcher.NotifyWatcher, error)
}

// Failed is a machine whose start failed.
type Failed interface {
	Id() string
	Life() life.Value
	Status() status.Info
}

// Each of these is what one kind of method needs of a machine.
type (
	seriesMachine interface {
		Series() string
	}

	constrainedMachine interface {
		Constraints() constraints.Value
	}

	groupedMachine interface {
		IsManager() bool
		Group() string
	}

	wantedMachine interface {
		seriesMachine
		constrainedMachine
		Placement() string
		Jobs() []job.Job
		Tag() tag.Tag
		WantedVolumes() []Volume
	}

	instanceStatusMachine interface {
		InstanceStatus() status.Info
		SetInstanceStatus(ctx context.Context, s status.Info) error
		SetStatus(ctx context.Context, s status.Info) error
	}

	startedMachine interface {
		RecordInstance(ctx context.Context, i Instance) error
	}

	hostMachine interface {
		SetSupportedContainers(ctx context.Context, types []container.Type) error
		SetNoSupportedContainers(ctx context.Context) error
		WatchContainers(ctx context.Context, t container.Type) (watcher.StringsWatcher, error)
	}

	deadMachine interface {
		MarkForRemoval(ctx context.Context) error
	}

	networkedMachine interface {
		Id() string
		IsContainer() bool
		InstanceId() (instance.ID, error)
		Interfaces() []network.Interface
		Addresses() []network.Address
	}

	allocatedMachine interface {
		networkedMachine
		Given() []Given
		Give(ctx context.Context, s network.Subnet, via network.Interface) (Given, error)
		ReleaseAddresses(ctx context.Context) error
	}
)

// Volume is a volume to make with a machine.
type Volume struct {
	ID   string
	Pool string // or a type of storage; empty means the provider's own
	Size uint64 // MiB
}

// MadeVolume is a volume that was made with a machine.
type MadeVolume struct {
	ID         string
	VolumeID   string // the provider's
	HardwareID string
	Size       uint64 // MiB
	Persistent bool
}

// Given is an address that a container was given, with the interface of its host
// that leads there.
type Given struct {
	Address string
	MAC     string
	CIDR    string // of the subnet
	Via     network.Interface
}

// Instance is what was started for a machine.
type Instance struct {
	ID        instance.ID
	Nonce     string
	Hardware  hardware.Characteristics
	Addresses []network.Address // nil if none are known

	Interfaces  []network.Interface // nil if none are known
	Volumes     []MadeVolume
	Attachments map[string]params.VolumeAttachmentInfo // of volumes, by id
}
