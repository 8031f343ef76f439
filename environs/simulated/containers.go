package simulated

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
)

// Host is a machine of a Rack as its own agent has it: a place for containers,
// which are instances in the rack that end with their host. A container can be a
// host too. Its methods are as in environs.InstanceBroker.
type Host struct {
	rack *Rack
	id   instance.ID
	key  modelKey
}

// StartInstance starts a container.
func (h *Host) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	if err := p.Validate(); err != nil {
		return none, err
	}
	q := startRequest(p)
	q.Host, q.Placement = h.id, ""
	for _, i := range p.Network {
		q.Addresses = append(q.Addresses, network.NewAddress(i.Address))
	}
	p.Report(status.Allocating, "starting a container on "+string(h.id))
	reply, err := h.rack.Start(ctx, q)
	if err != nil {
		return none, errors.Trace(err)
	}
	p.Report(reply.Instance.Status, reply.Instance.Message)
	return environs.StartInstanceResult{Instance: reply.Instance, Existed: reply.Existed}, nil
}

// StopInstances ends containers.
func (h *Host) StopInstances(ctx context.Context, ids []instance.ID) ([]error, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return h.rack.Stop(ctx, StopRequest{ControllerUUID: h.key.site, ModelUUID: h.key.model, IDs: ids, Host: h.id})
}

// AllInstances returns the containers that are directly on the host.
func (h *Host) AllInstances(ctx context.Context) ([]environs.Instance, error) {
	return h.rack.List(ctx, ListRequest{ControllerUUID: h.key.site, ModelUUID: h.key.model, Host: h.id})
}

// startRequest returns what a Rack is asked for, without an epoch and a group.
func startRequest(p environs.StartInstanceParams) StartRequest {
	c := p.InstanceConfig
	return StartRequest{
		Owner: p.Owner, Base: p.Base.String(), Constraints: p.Constraints, Placement: p.Placement, Tags: p.Tags, Volumes: p.Volumes,
		Agent: Agent{
			MachineID: c.MachineID, ModelUUID: c.ModelUUID, Nonce: c.Nonce, Password: c.Password,
			APIAddresses: c.APIAddresses, CACert: c.CACert,
		},
	}
}

// where decides where an instance goes: beside its host, or wherever there is
// room. The caller holds r.mu.
func (r *Rack) where(q StartRequest) (zone, kind string, t throw, err error) {
	what := "start of machine " + q.Owner.MachineID
	if q.Host != "" {
		host := r.instances[q.Host]
		if host == nil || !host.running || keyOf(host.Owner) != keyOf(q.Owner) {
			return "", "", t, errors.WithType(errors.Errorf("%s: its host %s does not run", what, q.Host), environs.ErrBusy)
		}
		t = r.throwStart(q.Owner, 0)
		zone, kind = host.Zone, host.Kind
	} else {
		where, err := r.has.parsePlacement(q.Placement)
		if err != nil {
			return "", "", t, err
		}
		kinds, err := r.has.fitting(q.Constraints)
		if err != nil {
			return "", "", t, err
		}
		t = r.throwStart(q.Owner, where.fail)
		if t.fault != FaultBusy {
			if zone, kind, err = r.room(q, where.zone, kinds, t); err != nil {
				return "", "", t, err
			}
		}
	}
	if t.fault == FaultBusy {
		return "", "", t, failure(FaultBusy, what, t.message)
	}
	return zone, kind, t, nil
}

// adrift reports whether a container's host, or the host of that and so on, is not
// there. Nobody else has r.
func (r *Rack) adrift(m *machine) bool {
	for m != nil && m.Host != "" {
		m = r.instances[m.Host]
	}
	return m == nil
}

// endHosted ends all that a machine hosts, without asking anybody. The caller
// holds r.mu.
func (r *Rack) endHosted(host instance.ID) {
	for id := range r.hosted[host] {
		m := r.instances[id]
		if m.running {
			if err := r.keep(record{Stopped: id}); err != nil {
				logger.Warningf("cannot keep end of instance %s: %v", id, err) // it has no host after a restart, and ends then
			}
		}
		r.displace(m)
		r.agents.stop(id)
		r.endHosted(id)
	}
}
