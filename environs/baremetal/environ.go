package baremetal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/placement"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// defaultArch is the architecture of machines that ask for none, if the address of
// their image depends on it.
const defaultArch = "amd64"

// environ implements environs.Environ.
type environ struct {
	hosts     environs.HostPool // nil: none
	allocator *gatherer         // of hosts
	owner     environs.Owner    // names no machine

	mu       sync.Mutex
	settings settings
}

var (
	_ environs.Environ  = (*environ)(nil)
	_ environs.Zoned    = (*environ)(nil)
	_ environs.Follower = (*environ)(nil)
)

// pool returns the hosts, or an error if the environ was opened without.
func (e *environ) pool() (environs.HostPool, error) {
	if e.hosts == nil {
		return nil, errors.NewNotSupported(nil, "hosts are out of reach here")
	}
	return e.hosts, nil
}

// SetConfig implements environs.Environ.
func (e *environ) SetConfig(_ context.Context, cfg *config.Config) error {
	s, err := settingsOf(cfg)
	if err != nil {
		return errors.Annotate(err, "cannot use settings")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings = s
	return nil
}

func (e *environ) current() settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings
}

// Precheck implements environs.Environ.
func (e *environ) Precheck(_ context.Context, p environs.PrecheckParams) error {
	if _, err := e.current().imageFor(p.Base, defaultArch); err != nil {
		return err
	}
	_, _, err := where(p.Placement)
	return err
}

// where reads a placement directive: host=NAME, zone=NAME, or nothing.
func where(directive string) (host, zone string, err error) {
	if directive == "" {
		return "", "", nil
	}
	if name, ok := strings.CutPrefix(directive, "host="); ok && name != "" {
		return name, "", nil
	}
	if name, ok := placement.Zone(directive); ok && name != "" {
		return "", name, nil
	}
	return "", "", errors.NewNotValid(nil, fmt.Sprintf("unknown placement directive: %s (use host=NAME or zone=NAME)", directive))
}

// ConstraintsValidator implements environs.Environ.
func (e *environ) ConstraintsValidator(context.Context) (*constraints.Validator, error) {
	v := &constraints.Validator{
		Unsupported: []string{constraints.CPUPower, constraints.InstanceType, constraints.Spaces, constraints.VirtType},
	}
	v.AddVocabulary(constraints.Arch, "amd64", "arm64", "ppc64el", "riscv64", "s390x")
	return v, nil
}

// StartInstance implements environs.InstanceBroker. It gives the machine a host, and
// does not wait for what becomes of it. Machines that are started at a time are given
// hosts together.
func (e *environ) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	request, err := e.request(ctx, p)
	if err != nil {
		return none, errors.Annotatef(err, "cannot start machine %s", p.Owner.MachineID)
	}
	if _, err := e.pool(); err != nil {
		return none, err
	}
	p.Report(status.Allocating, "choosing a host")
	given, err := e.allocator.allocate(ctx, request)
	if err != nil {
		return none, errors.Trace(err) // it says which machine, and why
	}
	inst, err := e.instance(given)
	return environs.StartInstanceResult{Instance: inst, Existed: given.Existed}, err
}

// request returns what the controller is asked for.
func (e *environ) request(ctx context.Context, p environs.StartInstanceParams) (params.AllocateHost, error) {
	var none params.AllocateHost
	if err := p.Validate(); err != nil {
		return none, err
	}
	if !p.Owner.SameModel(e.owner) {
		return none, errors.NotValidf("owner in another model")
	}
	host, zone, err := where(p.Placement)
	if err != nil {
		return none, err
	}
	s := e.current()
	want := p.Constraints
	arch := defaultArch
	if want.Arch != nil && *want.Arch != "" {
		arch = *want.Arch
	} else if strings.Contains(s.image.URL, "{arch}") {
		want.Arch = &arch
	}
	image, err := s.imageFor(p.Base, arch)
	if err != nil {
		return none, err
	}
	a := params.AllocateHost{
		MachineTag: tag.NewMachineTag(p.Owner.MachineID).String(), Nonce: p.InstanceConfig.Nonce,
		Constraints: want, Host: host, Zones: zonesOf(p.SubnetsToZones, zone),
	}
	if a.Image, err = json.Marshal(image); err != nil {
		return none, errors.Annotate(err, "cannot encode the image")
	}
	user, network, err := s.dataFor(p.InstanceConfig)
	if err != nil {
		return none, err
	}
	a.Data = params.HostData{UserData: params.Secret(user), NetworkData: params.Secret(network)}
	if p.DistributionGroup != nil {
		group, err := p.DistributionGroup(ctx)
		if err != nil {
			return none, errors.Annotate(err, "cannot ask for the distribution group")
		}
		for _, id := range group {
			a.Apart = append(a.Apart, string(id))
		}
	}
	return a, nil
}

// zonesOf returns the zones that will do: the one that is asked for, else those of
// the subnets; nil means any.
func zonesOf(subnets map[string][]string, only string) []string {
	if only != "" {
		return []string{only}
	}
	var zones []string
	for _, z := range subnets {
		zones = append(zones, z...)
	}
	return zones
}

// StopInstances implements environs.InstanceBroker. An instance is gone when its host
// is its machine's no more; the host is wiped before it is another's.
func (e *environ) StopInstances(ctx context.Context, ids []instance.ID) ([]error, error) {
	hosts, err := e.pool()
	if err != nil || len(ids) == 0 {
		return make([]error, len(ids)), err
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	results, err := hosts.Release(ctx, names...)
	if err != nil {
		return nil, errors.Annotate(err, "cannot release hosts")
	}
	for i, err := range results {
		if errors.Is(err, errors.NotFound) {
			results[i] = nil // another model's: none of ours
		}
	}
	return results, nil
}

// AvailabilityZones implements environs.Zoned.
func (e *environ) AvailabilityZones(ctx context.Context) ([]environs.Zone, error) {
	hosts, err := e.pool()
	if err != nil {
		return nil, err
	}
	found, err := hosts.Zones(ctx)
	zones := make([]environs.Zone, len(found))
	for i, z := range found {
		zones[i] = environs.Zone{Name: z.Name, Available: z.Free}
	}
	return zones, errors.Annotate(err, "cannot ask for zones")
}

// MaintainInstance implements environs.InstanceBroker: the host manager does.
func (e *environ) MaintainInstance(context.Context, string, instance.ID) error { return nil }

// Destroy implements environs.Environ.
func (e *environ) Destroy(ctx context.Context) error {
	all, err := e.AllInstances(ctx)
	if err != nil {
		return errors.Annotatef(err, "cannot destroy model %s", e.owner.ModelUUID)
	}
	ids := make([]instance.ID, len(all))
	for i, inst := range all {
		ids[i] = inst.ID
	}
	results, err := e.StopInstances(ctx, ids)
	for _, failure := range results {
		if err == nil {
			err = failure
		}
	}
	return errors.Annotatef(err, "cannot destroy model %s", e.owner.ModelUUID)
}
