package lxd

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/placement"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

// Environ implements environs.Environ.
type Environ struct {
	options Options
	owner   environs.Owner // names no machine

	mu       sync.Mutex
	settings settings
	hosts    hosts
	unusable error                    // why there are no hosts; nil if there are
	busy     map[string]chan struct{} // by machine: closed when its start has ended
}

var (
	_ environs.Environ = (*Environ)(nil)
	_ environs.Zoned   = (*Environ)(nil)
)

// configure takes over a model's settings.
func (e *Environ) configure(cfg *config.Config) error {
	s, err := settingsOf(cfg)
	if err != nil {
		return err
	}
	s, unusable := s.withDefaults(e.options)
	hosts, err := newHosts(s)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hosts {
		h.client.CloseIdle()
	}
	e.settings, e.hosts, e.unusable = s, hosts, unusable
	return nil
}

// current returns the settings and hosts in force. It errs if there are no
// hosts to use, which need not be wrong: a controller may open an Environ only
// to ask what the provider thinks of a machine.
func (e *Environ) current() (settings, hosts, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings, e.hosts, e.unusable
}

// SetConfig implements environs.Environ.
func (e *Environ) SetConfig(_ context.Context, cfg *config.Config) error {
	return errors.Annotate(e.configure(cfg), "cannot use settings")
}

// Precheck implements environs.Environ.
func (e *Environ) Precheck(_ context.Context, p environs.PrecheckParams) error {
	_, hosts, unusable := e.current()
	if _, err := candidates(hosts, p.Placement, nil); err != nil && unusable == nil {
		return err
	}
	return checkVirtType(p.Constraints)
}

// candidates returns the hosts that placement allows; only are the zones that
// will do, nil meaning all.
func candidates(all hosts, directive string, only []string) (hosts, error) {
	out := all
	if directive != "" {
		zone, ok := placement.Zone(directive)
		if !ok {
			return nil, errors.NewNotValid(nil, "unknown placement directive: "+directive)
		}
		h := all.zone(zone)
		if h == nil {
			return nil, errors.NewNotValid(nil, "no LXD server is zone "+zone)
		}
		out = hosts{h}
	}
	if only == nil {
		return out, nil
	}
	out = slices.DeleteFunc(slices.Clone(out), func(h *host) bool { return !slices.Contains(only, h.zone) })
	if len(out) == 0 {
		return nil, errors.NewNotValid(nil, "no LXD server is in one of the zones "+strings.Join(only, ", "))
	}
	return out, nil
}

func checkVirtType(v constraints.Value) error {
	if v.VirtType != nil && *v.VirtType != "" && *v.VirtType != "container" {
		return errors.NewNotValid(nil, "virt-type="+*v.VirtType+": machines of this model are containers")
	}
	return nil
}

// ConstraintsValidator implements environs.Environ.
func (e *Environ) ConstraintsValidator(ctx context.Context) (*constraints.Validator, error) {
	v := &constraints.Validator{
		Unsupported: []string{constraints.CPUPower, constraints.InstanceType, constraints.Spaces, constraints.Tags},
	}
	v.AddVocabulary(constraints.VirtType, "container")
	s, hosts, err := e.current()
	if err != nil {
		return v, nil // the worker's hosts are not known here
	}
	found := make([][]string, len(hosts))
	errs := hosts.each(func(i int, h *host) error {
		info, err := h.describe(ctx, s.profiles)
		found[i] = info.arches
		return err
	})
	arches := slices.Concat(found...)
	if len(arches) == 0 {
		return nil, errors.Annotate(first(errs), "cannot ask for architectures")
	}
	v.AddVocabulary(constraints.Arch, arches...)
	return v, nil
}

// AvailabilityZones implements environs.Zoned.
func (e *Environ) AvailabilityZones(ctx context.Context) ([]environs.Zone, error) {
	_, hosts, err := e.current()
	if err != nil {
		return nil, err
	}
	zones := make([]environs.Zone, len(hosts))
	hosts.each(func(i int, h *host) error {
		_, err := h.client.Server(ctx)
		zones[i] = environs.Zone{Name: h.zone, Available: err == nil}
		return nil
	})
	return zones, errors.Trace(ctx.Err())
}

// MaintainInstance implements environs.InstanceBroker. LXD starts its containers
// by itself after its machine was started.
func (e *Environ) MaintainInstance(context.Context, string, instance.ID) error { return nil }

// Destroy implements environs.Environ.
func (e *Environ) Destroy(ctx context.Context) error {
	all, err := e.AllInstances(ctx)
	if err != nil {
		return errors.Annotatef(err, "cannot destroy model %s", e.owner.ModelUUID)
	}
	ids := make([]instance.ID, len(all))
	for i, inst := range all {
		ids[i] = inst.ID
	}
	results, err := e.StopInstances(ctx, ids)
	if err == nil {
		err = first(results)
	}
	return errors.Annotatef(err, "cannot destroy model %s", e.owner.ModelUUID)
}

// lock waits until no other start of the machine is under way, and returns what
// ends its own turn.
func (e *Environ) lock(ctx context.Context, machineID string) (func(), error) {
	for {
		e.mu.Lock()
		other, busy := e.busy[machineID]
		if !busy {
			mine := make(chan struct{})
			e.busy[machineID] = mine
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				delete(e.busy, machineID)
				e.mu.Unlock()
				close(mine)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, errors.Trace(ctx.Err())
		}
	}
}
