package hosts

import (
	"context"
	"encoding/json"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/host"
)

// Watch tells of which hosts changes what is wanted, by name. It is for managers,
// as is everything below.
func (h *Hosts) Watch(ctx context.Context) (params.StringsWatchResult, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.StringsWatchResult{}, common.ErrPerm
	}
	w, err := h.hosts.Watch(ctx)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return common.RegisterStrings(ctx, h.conn.Resources, w)
}

// Managed returns hosts with their credentials, to the holder of the site's lease.
// Hosts that are gone are left out.
func (h *Hosts) Managed(ctx context.Context, args params.HostNames) (params.ManagedHosts, error) {
	var out params.ManagedHosts
	if !h.conn.Auth.AuthModelManager() {
		return out, common.ErrPerm
	}
	found, err := h.hosts.Managed(ctx, args.Names)
	if err != nil {
		return out, errors.Trace(err)
	}
	for _, m := range found {
		p, err := toParams(m.Host)
		if err != nil {
			return out, errors.Trace(err)
		}
		out.Hosts = append(out.Hosts, params.ManagedHost{
			Host:        p,
			Credentials: params.HostCredentials{Username: params.Secret(m.Credentials.Username), Password: params.Secret(m.Credentials.Password)},
			Retries:     m.Retries, Force: m.Force, ForeignFor: m.ForeignFor, CredentialsVersion: m.CredentialsVersion,
		})
	}
	return out, nil
}

// Data returns what the machines on hosts are configured with, to the holder of the
// site's lease.
func (h *Hosts) Data(ctx context.Context, args params.HostNames) (params.HostDataResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.HostDataResults{}, common.ErrPerm
	}
	results := make([]params.HostDataResult, len(args.Names))
	for i, name := range args.Names {
		d, err := h.hosts.Data(ctx, name)
		if err != nil {
			results[i].Error = common.OwnError(err)
			continue
		}
		results[i].Result = &params.HostData{UserData: params.Secret(d.UserData), NetworkData: params.Secret(d.NetworkData)}
	}
	return params.HostDataResults{Results: results}, nil
}

// Intend notes for how long the caller may act on hosts.
func (h *Hosts) Intend(ctx context.Context, args params.HostIntents) (params.ErrorResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	named := func(i params.HostIntent) string { return i.Name }
	return eachAtOnce(args.Intents, named, func(i params.HostIntent) error { return h.hosts.Intend(ctx, i.Name, i.For) }), nil
}

// Save replaces what is known of hosts.
func (h *Hosts) Save(ctx context.Context, args params.HostUpdates) (params.ErrorResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	named := func(u params.HostUpdate) string { return u.Name }
	return eachAtOnce(args.Updates, named, func(u params.HostUpdate) error {
		update := host.Update{Progress: host.Progress(u.Progress), ClearAnnotations: u.ClearAnnotations}
		if err := json.Unmarshal(u.Status, &update.Status); err != nil {
			return errors.NewNotValid(nil, "status is no status of a BareMetalHost: "+err.Error())
		}
		for _, e := range u.Events {
			update.Events = append(update.Events, host.Event(e))
		}
		return h.hosts.Save(ctx, u.Name, update)
	}), nil
}

// Forget removes the records of hosts that were to be removed and have been let go.
func (h *Hosts) Forget(ctx context.Context, args params.HostNames) (params.ErrorResults, error) {
	if !h.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	named := func(name string) string { return name }
	return eachAtOnce(args.Names, named, func(name string) error { return h.hosts.Forget(ctx, name) }), nil
}
