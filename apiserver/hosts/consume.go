package hosts

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/host"
)

// Allocate gives machines of the connection's model free hosts that meet their
// requests. A machine that has one keeps it. It is for the manager that holds the
// model's lease, as is everything below.
func (h *Hosts) Allocate(ctx context.Context, args params.AllocateHosts) (params.ConsumedHostResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.ConsumedHostResults{}, common.ErrPerm
	}
	results := make([]params.ConsumedHostResult, len(args.Machines))
	var wants []host.Want
	var places []int // in results
	for i, a := range args.Machines {
		w, err := want(a)
		if err != nil {
			results[i].Error = common.OwnError(err)
			continue
		}
		wants, places = append(wants, w), append(places, i)
	}
	for n, g := range h.hosts.Allocate(ctx, h.state, wants) {
		c, err := params.ConsumedHost{}, g.Err
		if err == nil {
			c, err = consumed(g.Host)
		}
		if err != nil {
			results[places[n]].Error = common.OwnError(err)
			continue
		}
		c.Existed = g.Existed
		results[places[n]].Result = &c
	}
	return params.ConsumedHostResults{Results: results}, nil
}

// want returns what one machine of a call wants.
func want(a params.AllocateHost) (host.Want, error) {
	t, err := tag.ParseMachineTag(a.MachineTag)
	if err != nil {
		return host.Want{}, common.ErrPerm
	}
	w := host.Want{MachineID: t.Id(), Request: host.Request{
		Nonce: a.Nonce, Constraints: a.Constraints, Name: a.Host, Zones: a.Zones, Apart: a.Apart,
		Data: host.Data{UserData: string(a.Data.UserData), NetworkData: string(a.Data.NetworkData)},
	}}
	var image metal3v1alpha1.Image
	if json.Unmarshal(a.Image, &image) != nil || image.URL == "" || a.Nonce == "" {
		return host.Want{}, errors.NewNotValid(nil, "request for a host without a nonce or an image")
	}
	w.Image = &image
	return w, nil
}

// consumed returns a host as its machine's provisioner sees it.
func consumed(h host.Host) (params.ConsumedHost, error) {
	status, err := json.Marshal(h.Record.Status)
	if err != nil {
		return params.ConsumedHost{}, errors.Annotatef(err, "cannot encode the status of host %q", h.Name)
	}
	c := params.ConsumedHost{
		Name: h.Name, MachineID: h.Consumer.MachineID, Nonce: h.Consumer.Nonce, Zone: h.Zone(),
		Status: status, Progress: params.HostProgress(h.Progress),
	}
	for t := range h.Record.Metadata.Labels {
		if t != host.ZoneLabel {
			c.Tags = append(c.Tags, t)
		}
	}
	slices.Sort(c.Tags)
	return c, nil
}

// Release takes hosts away from the machines of the model that have them. One that
// is free, or gone, is left as it is.
func (h *Hosts) Release(ctx context.Context, args params.HostNames) (params.ErrorResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Names, func(name string) error { return h.hosts.Release(ctx, h.state, name) }), nil
}

// Consumed returns the hosts that machines of the model have: those among the
// named, or all if none is named.
func (h *Hosts) Consumed(ctx context.Context, args params.HostNames) (params.ConsumedHosts, error) {
	var out params.ConsumedHosts
	if !h.conn.Auth.AuthModelManager() {
		return out, common.ErrPerm
	}
	found, err := h.hosts.Consumed(ctx, h.state.ModelUUID(), args.Names)
	if err != nil {
		return out, errors.Trace(err)
	}
	for _, f := range found {
		c, err := consumed(f)
		if err != nil {
			return out, errors.Trace(err)
		}
		out.Hosts = append(out.Hosts, c)
	}
	return out, nil
}

// WatchConsumed tells of which hosts the manager's report changes, by name.
func (h *Hosts) WatchConsumed(ctx context.Context) (params.StringsWatchResult, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.StringsWatchResult{}, common.ErrPerm
	}
	w, err := h.hosts.WatchStatus(ctx)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return common.RegisterStrings(ctx, h.conn.Resources, w)
}

// Zones returns the zones that hosts are in.
func (h *Hosts) Zones(ctx context.Context) (params.HostZones, error) {
	var out params.HostZones
	if !h.conn.Auth.AuthModelManager() {
		return out, common.ErrPerm
	}
	zones, err := h.hosts.Zones(ctx, h.state.ModelUUID())
	for _, z := range zones {
		out.Zones = append(out.Zones, params.HostZone(z))
	}
	return out, errors.Trace(err)
}
