package lxd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// cleanupTimeout bounds what is done after a failed start.
const cleanupTimeout = 30 * time.Second

// StartInstance implements environs.InstanceBroker.
func (e *Environ) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	r, err := e.start(ctx, p)
	return r, errors.Annotatef(err, "cannot start container for machine %s", p.Owner.MachineID)
}

func (e *Environ) start(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	if err := p.Validate(); err != nil {
		return none, err
	}
	if !p.Owner.SameModel(e.owner) {
		return none, errors.NotValidf("owner in another model")
	}
	if err := checkVirtType(p.Constraints); err != nil {
		return none, err
	}
	if len(p.Volumes) > 0 {
		return none, errors.NotSupportedf("volumes made with an LXD container (leave out --disks; root-disk sets the size of its own disk):")
	}
	unlock, err := e.lock(ctx, p.Owner.MachineID)
	if err != nil {
		return none, err
	}
	defer unlock()

	s, all, err := e.current()
	if err != nil {
		return none, err
	}
	allowed, err := candidates(all, p.Placement, zonesOf(p.SubnetsToZones))
	if err != nil {
		return none, err
	}
	if f, err := e.find(ctx, all, p.Owner); err != nil {
		return none, err
	} else if f != nil {
		return e.resume(ctx, s, *f, p)
	}
	suited, err := suitable(ctx, s, allowed, p)
	if err != nil {
		return none, err
	}
	order, err := e.order(ctx, suited, p)
	if err != nil {
		return none, err
	}
	for _, h := range order {
		var r environs.StartInstanceResult
		if r, err = e.startOn(ctx, s, h, p); err == nil {
			return r, nil
		}
		if environs.ClassOf(err) != environs.ZoneSpecific {
			break
		}
		logger.Infof("machine %s: %v", p.Owner.MachineID, err)
	}
	return none, err
}

// zonesOf returns the zones of all subnets; nil means any.
func zonesOf(subnets map[string][]string) []string {
	if len(subnets) == 0 {
		return nil
	}
	zones := []string{}
	for _, z := range subnets {
		zones = append(zones, z...)
	}
	return zones
}

// find returns the machine's container, or nil. It errs if a host does not
// answer: the container may be there.
func (e *Environ) find(ctx context.Context, hosts hosts, owner environs.Owner) (*found, error) {
	there := make([]*found, len(hosts))
	errs := hosts.each(func(i int, h *host) error {
		inst, err := h.client.Instance(ctx, nameOf(owner))
		switch {
		case errors.Is(err, errors.NotFound):
			return nil
		case err != nil:
			return h.explain(err)
		case ownerOf(inst) != owner:
			return errors.WithType(errors.Errorf("container %s on LXD server %s is not ours", inst.Name, h.zone), environs.ErrPermanent)
		}
		there[i] = &found{h, inst}
		return nil
	})
	for _, f := range there {
		if f != nil {
			return f, nil
		}
	}
	return nil, first(errs)
}

// suitable returns the hosts that can meet the machine's constraints, and those
// that do not say. It returns a permanent error if there are none.
func suitable(ctx context.Context, s settings, allowed hosts, p environs.StartInstanceParams) (hosts, error) {
	unmet := make([][]string, len(allowed))
	errs := allowed.each(func(i int, h *host) error {
		info, err := h.describe(ctx, s.profiles)
		if err == nil {
			_, unmet[i] = hardwareOf(h, info, p)
		}
		return err
	})
	var out hosts
	for i, h := range allowed {
		if errs[i] != nil || len(unmet[i]) == 0 {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return nil, errors.WithType(errors.Errorf("no LXD server can meet %s", strings.Join(unmet[0], " ")), environs.ErrPermanent)
	}
	return out, nil
}

// order returns the hosts in the order in which to try them: those with the
// fewest members of the machine's group first.
func (e *Environ) order(ctx context.Context, allowed hosts, p environs.StartInstanceParams) (hosts, error) {
	if len(allowed) == 1 {
		return allowed, nil
	}
	running, err := e.AllInstances(ctx)
	if err != nil {
		return nil, err
	}
	population := environs.Population(running, nil)
	if p.DistributionGroup != nil {
		group, err := p.DistributionGroup(ctx)
		if err != nil {
			return nil, errors.Annotate(err, "cannot get distribution group")
		}
		population = environs.Population(running, group)
	}
	var zones []environs.Zone
	for _, h := range allowed {
		zones = append(zones, environs.Zone{Name: h.zone, Available: true})
	}
	var out hosts
	for _, zone := range environs.SpreadZones(zones, population, nil) {
		out = append(out, allowed.zone(zone))
	}
	return out, nil
}

// startOn makes a machine's container on one host and starts it.
func (e *Environ) startOn(ctx context.Context, s settings, h *host, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	info, err := h.describeFor(ctx, s.profiles, p)
	if err != nil {
		return none, err
	}
	plan, err := e.planFor(ctx, s, info, p)
	if err != nil {
		return none, err
	}
	p.Report(status.Provisioning, "creating container on "+h.zone)
	err = h.client.Create(ctx, plan.container, func(what string) { p.Report(status.Provisioning, "creating container: "+what) })
	if errors.Is(err, errors.AlreadyExists) {
		return none, errors.WithType(errors.Errorf("container %s is being made by another worker", plan.container.Name), environs.ErrBusy)
	}
	if errors.Is(err, errors.NotFound) {
		source := plan.container.Source
		return none, errors.WithType(errors.Annotatef(err, "LXD server %s has no image %q: import it, or set %s", h.zone, source.Alias+source.Fingerprint, ImageKey), environs.ErrPermanent)
	}
	if err == nil {
		err = boot(ctx, h, plan, p)
	}
	if err != nil {
		removeQuietly(ctx, h, plan.container.Name)
		return none, explainStart(h, err)
	}
	return e.result(ctx, h, info, p)
}

// result returns what was started.
func (e *Environ) result(ctx context.Context, h *host, info hostInfo, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	i, err := h.client.Instance(ctx, nameOf(p.Owner))
	if err != nil {
		return environs.StartInstanceResult{}, h.explain(err) // it is found by its marks
	}
	out := instanceOf(h, i)
	out.Hardware, _ = hardwareOf(h, info, p)
	out.Addresses = addressesGiven(p.Network)
	return environs.StartInstanceResult{Instance: out}, nil
}

// resume goes on with a container that is there from an earlier start. One that
// was cut off is finished; one that somebody stopped stays so.
func (e *Environ) resume(ctx context.Context, s settings, f found, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	if f.instance.Config[keyPrefix+environs.TagNonce] != p.InstanceConfig.Nonce {
		return none, errors.AlreadyExistsf("container %s of another start", f.instance.Name)
	}
	info, err := f.host.describeFor(ctx, s.profiles, p)
	if err != nil {
		return none, err
	}
	if err := e.finish(ctx, s, info, f, p); err != nil {
		return none, explainStart(f.host, err)
	}
	r, err := e.result(ctx, f.host, info, p)
	r.Existed = true
	return r, err
}

// explainStart is explain for a container that could not be made or started.
func explainStart(h *host, err error) error {
	switch {
	case says(err, "no space left", "out of disk space", "disk quota exceeded"):
		err = errors.Annotate(err, "there is no room for the container: make some in its storage pool, or have "+ProfilesKey+" name another")
	case !says(err, "cannot allocate memory"):
		return h.explain(err)
	}
	return errors.WithType(h.explain(err), environs.ErrZone)
}

// says reports whether LXD failed for a reason that one of some texts, in small
// letters, tells: what it lacks shows in its text alone.
func says(err error, texts ...string) bool {
	if err == nil || errors.Is(err, rest.ErrUnreachable) {
		return false
	}
	said := strings.ToLower(err.Error())
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(said, text) })
}
