package environs

import (
	"context"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
)

// InstanceBroker starts, stops and lists the instances of one model. Its
// methods may be called by many goroutines at once.
type InstanceBroker interface {
	// StartInstance starts one instance for one machine and returns when its
	// id is known; see the package comment for what happens if the machine has
	// one already, and Follower for instances that take hours. A broker with zones tries, by itself, all that would do. An
	// error means that no instance is left behind, or that
	// one is which AllInstances lists with its owner.
	StartInstance(ctx context.Context, p StartInstanceParams) (StartInstanceResult, error)

	// StopInstances ends instances, and returns one result for each id in the
	// same order: nil if the instance is gone or was never there. The second
	// result says that nothing could be tried at all; then the first is nil.
	StopInstances(ctx context.Context, ids []instance.ID) ([]error, error)

	// AllInstances returns every instance of the model, those that failed and
	// those that do not run included, in no particular order. Providers may
	// take a while until they list an instance that has just been started.
	AllInstances(ctx context.Context) ([]Instance, error)

	// Instances returns the instances with the given ids, in the same order.
	// If only some are there, the others are zero and the error is
	// ErrPartialInstances; if none is, it is ErrNoInstances. No ids give no
	// instances and no error.
	Instances(ctx context.Context, ids []instance.ID) ([]Instance, error)

	// MaintainInstance sets up again, on the host, what an instance needs
	// that runs there. Most providers have nothing to do.
	MaintainInstance(ctx context.Context, machineID string, id instance.ID) error
}

// Instance is what a provider knows of an instance, at the time of asking.
type Instance struct {
	ID        instance.ID              `json:"id"`
	Owner     Owner                    `json:"owner"`
	Nonce     string                   `json:"nonce,omitempty"` // that it was started with; empty if the provider cannot tell, or its start may still come to nothing
	Status    status.Status            `json:"status"`
	Message   string                   `json:"message,omitempty"` // what the provider says about the status
	Addresses []network.Address        `json:"addresses,omitempty"`
	Hardware  hardware.Characteristics `json:"hardware"`
	Volumes   []Volume                 `json:"volumes,omitempty"` // that were made with it
}

// VolumeParams says what volume to make with an instance.
type VolumeParams struct {
	ID         string         `json:"id"`                   // of the volume in the model
	Size       uint64         `json:"size"`                 // MiB
	Provider   string         `json:"provider"`             // the type of storage
	Attributes map[string]any `json:"attributes,omitempty"` // of the storage pool: the provider knows what they mean
}

// Volume is a volume that was made with an instance, and is attached to it.
type Volume struct {
	ID         string `json:"id"`          // as in VolumeParams
	VolumeID   string `json:"volume-id"`   // the provider's
	Size       uint64 `json:"size"`        // MiB
	DeviceName string `json:"device-name"` // as the instance sees it
	Persistent bool   `json:"persistent,omitempty"`
}

// IsZero reports whether i is no instance at all.
func (i Instance) IsZero() bool { return i.ID == "" }

// Zone returns the availability zone that the instance is in, and "" if it is
// in none.
func (i Instance) Zone() string {
	if i.Hardware.AvailabilityZone == nil {
		return ""
	}
	return *i.Hardware.AvailabilityZone
}

// StartInstanceParams says what instance to start.
type StartInstanceParams struct {
	// Owner is whom the instance is for. All of it is required.
	Owner Owner
	// InstanceConfig is what the instance's agent has to know. Required.
	InstanceConfig *InstanceConfig
	// Base is the operating system. Required.
	Base base.Base
	// Constraints are what the instance must be like.
	Constraints constraints.Value
	// Placement is a directive in the provider's own words, such as
	// "zone=z1"; empty means anywhere.
	Placement string
	// DistributionGroup returns the instances to keep away from, as far as
	// zones go. Nil, and no instances, mean all of the model's.
	DistributionGroup func(context.Context) ([]instance.ID, error)
	// Tags are to be put on the instance, as well as those of Owner.
	Tags map[string]string
	// SubnetsToZones has the zones of each subnet that may be used, by the
	// provider's id of the subnet. Nil means any.
	SubnetsToZones map[string][]string
	// EndpointBindings has the provider's id of a space for each endpoint.
	EndpointBindings map[string]string
	// Volumes are to be made with the instance. A provider that cannot returns an
	// error satisfying errors.NotSupported.
	Volumes []VolumeParams
	// Network are the interfaces that a container is to have, each with its MAC
	// address and its address in a subnet. None means those that its host gives
	// to containers. Brokers of whole machines are never given any.
	Network []network.Interface
	// Progress is told what happens, for people to see. It never blocks for
	// long and may be called any number of times until StartInstance returns;
	// nil means nobody asks.
	Progress func(status.Info)
}

// Report tells Progress, if anyone asks.
func (p StartInstanceParams) Report(s status.Status, message string) {
	if p.Progress != nil {
		p.Progress(status.Info{Status: s, Message: message})
	}
}

// StartInstanceResult is what StartInstance started.
type StartInstanceResult struct {
	Instance Instance
	// Existed says that the instance was there already, from an earlier call
	// whose answer was lost.
	Existed bool
}

// SelectInstances returns those of all with the given ids, in the order of
// ids, as InstanceBroker.Instances does. It is for brokers that can only list
// everything.
func SelectInstances(all []Instance, ids []instance.ID) ([]Instance, error) {
	byID := make(map[instance.ID]Instance, len(all))
	for _, i := range all {
		byID[i.ID] = i
	}
	out := make([]Instance, len(ids))
	found := 0
	for n, id := range ids {
		if i, ok := byID[id]; ok {
			out[n] = i
			found++
		}
	}
	switch {
	case found == len(ids):
		return out, nil
	case found == 0:
		return nil, ErrNoInstances
	}
	return out, ErrPartialInstances
}

// Follower is what an InstanceBroker is as well if its instances take long to come
// to be: its StartInstance returns as soon as it is certain that the instance will
// be one, with the status Allocating, and Follow tells what becomes of it.
type Follower interface {
	// Follow tells how the model's instances stand: at first of all, then of those
	// whose status, or its message, may have changed; one that has gone by itself has
	// the status Error. It returns when ctx is done, or it cannot go on; tell does
	// not block for long.
	Follow(ctx context.Context, tell func([]Instance)) error
}
