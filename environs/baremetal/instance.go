package baremetal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

// AllInstances implements environs.InstanceBroker.
func (e *environ) AllInstances(ctx context.Context) ([]environs.Instance, error) {
	return e.list(ctx)
}

// Instances implements environs.InstanceBroker.
func (e *environ) Instances(ctx context.Context, ids []instance.ID) ([]environs.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	found, err := e.list(ctx, names...)
	if err != nil {
		return nil, err
	}
	return environs.SelectInstances(found, ids)
}

// list returns the instances of the model among names, or all.
func (e *environ) list(ctx context.Context, names ...string) ([]environs.Instance, error) {
	hosts, err := e.pool()
	if err != nil {
		return nil, err
	}
	found, err := hosts.Consumed(ctx, names...)
	if err != nil {
		return nil, errors.Annotate(err, "cannot list hosts")
	}
	out := make([]environs.Instance, len(found))
	for i, h := range found {
		if out[i], err = e.instance(h); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// instance returns a host as an instance.
func (e *environ) instance(h params.ConsumedHost) (environs.Instance, error) {
	var s metal3v1alpha1.BareMetalHostStatus
	if err := json.Unmarshal(h.Status, &s); err != nil {
		return environs.Instance{}, errors.Annotatef(err, "cannot read the status of host %q", h.Name)
	}
	i := environs.Instance{ID: instance.ID(h.Name), Owner: e.owner, Nonce: h.Nonce, Hardware: hardwareOf(h, s)}
	i.Owner.MachineID = h.MachineID
	i.Status, i.Message = standing(h, s)
	return i, nil
}

// standing says in a status and one line how far a host has come on its way to
// being its machine.
func standing(h params.ConsumedHost, s metal3v1alpha1.BareMetalHostStatus) (status.Status, string) {
	trouble := strings.Join(strings.Fields(s.ErrorMessage), " ")
	if trouble != "" {
		trouble = fmt.Sprintf("host %s: %s: %s", h.Name, s.ErrorType, trouble)
		if !h.Progress.NextTry.IsZero() {
			trouble += "; next try at " + h.Progress.NextTry.UTC().Format("15:04:05Z")
		}
	}
	switch {
	case s.Provisioning.State == metal3v1alpha1.StateProvisioned:
		if trouble == "" && !s.PoweredOn {
			trouble = fmt.Sprintf("host %s is switched off", h.Name)
		}
		return status.Running, trouble
	case h.Progress.Owner == ownerOperator:
		if trouble == "" {
			trouble = fmt.Sprintf("host %s: %s", h.Name, h.Progress.Reason)
		}
		return status.ProvisioningError, trouble
	case trouble != "":
		return status.Allocating, trouble
	}
	return status.Allocating, fmt.Sprintf("host %s: %s", h.Name, doing(h, s))
}

// ownerOperator is whom a host waits for that only a person can help; it is the host
// manager's word.
const ownerOperator = "operator"

// doing says what is being done about a host.
func doing(h params.ConsumedHost, s metal3v1alpha1.BareMetalHostStatus) string {
	switch {
	case h.Progress.Place > 0:
		return fmt.Sprintf("queued at position %d", h.Progress.Place)
	case s.Provisioning.State == metal3v1alpha1.StateReady || s.Provisioning.State == metal3v1alpha1.StateAvailable:
		return "chosen"
	case h.Progress.Reason != "":
		return fmt.Sprintf("%s: waiting for %s", s.Provisioning.State, h.Progress.Reason)
	}
	return string(s.Provisioning.State)
}

// hardwareOf returns what a host is made of.
func hardwareOf(h params.ConsumedHost, s metal3v1alpha1.BareMetalHostStatus) hardware.Characteristics {
	var c hardware.Characteristics
	if h.Zone != "" {
		c.AvailabilityZone = &h.Zone
	}
	if len(h.Tags) > 0 {
		c.Tags = &h.Tags
	}
	d := s.HardwareDetails
	if d == nil {
		return c
	}
	number := func(n int64) *uint64 {
		u := uint64(max(0, n))
		return &u
	}
	c.Mem, c.CPUCores = number(int64(d.RAMMebibytes)), number(int64(d.CPU.Count))
	if arch := d.CPU.Arch; arch != "" {
		if known, ok := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}[arch]; ok {
			arch = known
		}
		c.Arch = &arch
	}
	if disk, ok := s.Provisioning.RootDeviceHints.Choose(d.Storage, 0); ok {
		c.RootDisk = number(disk.SizeBytes >> 20)
	}
	return c
}

// Follow implements environs.Follower. Of hosts that other models have nothing is
// told; the first event names all there are.
func (e *environ) Follow(ctx context.Context, tell func([]environs.Instance)) error {
	hosts, err := e.pool()
	if err != nil {
		return err
	}
	w, err := hosts.WatchConsumed(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot watch hosts")
	}
	defer func() {
		w.Kill()
		_ = w.Wait() // its failure has been seen, or comes of the end
	}()
	known := map[instance.ID]environs.Instance{}
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case names, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "cannot watch hosts")
			}
			if first {
				names = nil // all of ours
			}
			found, err := e.list(ctx, names...)
			if err != nil {
				return err
			}
			tell(append(found, gone(known, names, found)...))
		}
	}
}

// gone notes what was found in known, and returns the instances that were known, are
// among names, and were not found.
func gone(known map[instance.ID]environs.Instance, names []string, found []environs.Instance) []environs.Instance {
	there := make(map[instance.ID]bool, len(found))
	for _, i := range found {
		known[i.ID], there[i.ID] = i, true
	}
	var out []environs.Instance
	for _, name := range names {
		id := instance.ID(name)
		i, ok := known[id]
		if !ok || there[id] {
			continue
		}
		delete(known, id)
		i.Status, i.Message = status.Error, fmt.Sprintf("host %s is not this machine's any more", name)
		out = append(out, i)
	}
	return out
}
