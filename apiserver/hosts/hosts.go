// Package hosts is the facade Hosts, version 1, an addition of this project to the
// protocol: the bare-metal hosts of a site. Superusers see them and say what they
// want of them; the one manager that holds the site's lease gets their
// credentials, and reports.
package hosts

import (
	"context"
	"encoding/json"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
)

// Hosts is the facade of one connection.
type Hosts struct {
	hosts *host.Hosts
	state *state.State
	conn  common.Connection
}

// New returns the facade of a connection, or ErrPerm if the caller is neither a
// manager nor a superuser.
func New(st *state.State, c common.Connection) (*Hosts, error) {
	if !c.Auth.AuthModelManager() && !superuser(c.Auth) {
		return nil, common.ErrPerm
	}
	return &Hosts{host.New(st.SiteDocs()), st, c}, nil
}

func superuser(a common.Authorizer) bool { return a.ControllerAccess().Includes(access.Superuser) }

// List describes hosts, given by name; no names mean all hosts.
func (h *Hosts) List(ctx context.Context, args params.HostNames) (params.HostResults, error) {
	if !superuser(h.conn.Auth) {
		return params.HostResults{}, common.ErrPerm
	}
	var out params.HostResults
	if len(args.Names) == 0 {
		all, err := h.hosts.All(ctx)
		if err != nil {
			return out, errors.Trace(err)
		}
		out.Results = make([]params.HostResult, len(all))
		for i := range all {
			out.Results[i] = result(all[i], nil)
		}
		return out, nil
	}
	for _, name := range args.Names {
		one, err := h.hosts.Get(ctx, name)
		out.Results = append(out.Results, result(one, err))
	}
	return out, nil
}

func result(h host.Host, err error) params.HostResult {
	var r params.HostResult
	if err == nil {
		var p params.Host
		if p, err = toParams(h); err == nil {
			r.Result = &p
		}
	}
	r.Error = common.OwnError(err)
	return r
}

// toParams returns a host as it goes over the wire.
func toParams(h host.Host) (params.Host, error) {
	record, err := json.Marshal(h.Record)
	if err != nil {
		return params.Host{}, errors.Annotatef(err, "cannot encode host %q", h.Name)
	}
	p := params.Host{Name: h.Name, Record: record, ReserveFor: h.ReserveFor, Progress: params.HostProgress(h.Progress), HasCredentials: h.HasCredentials}
	if h.Consumer != nil {
		p.Consumer = &params.HostConsumer{ModelUUID: h.Consumer.ModelUUID, MachineID: h.Consumer.MachineID}
	}
	for _, e := range h.Events {
		p.Events = append(p.Events, params.HostEvent(e))
	}
	return p, nil
}

// Add adds hosts. Of several with the same name the first is added; of several with the
// same BMC or MAC address any.
func (h *Hosts) Add(ctx context.Context, args params.AddHosts) (params.AddHostResults, error) {
	if !superuser(h.conn.Auth) {
		return params.AddHostResults{}, common.ErrPerm
	}
	results := make([]params.AddHostResult, len(args.Hosts))
	atOnce(args.Hosts, func(a params.AddHost) string { return a.Name }, func(i int, a params.AddHost) {
		name, err := h.add(ctx, a)
		if err != nil {
			results[i].Error = common.OwnError(err)
			return
		}
		results[i].Name = name
	})
	return params.AddHostResults{Results: results}, nil
}

func (h *Hosts) add(ctx context.Context, a params.AddHost) (string, error) {
	spec := host.Spec{Name: a.Name, Labels: a.Labels, Annotations: a.Annotations, Credentials: credentials(a.Credentials), ReserveFor: a.ReserveFor}
	if err := json.Unmarshal(a.Spec, &spec.Spec); err != nil {
		return "", errors.NewNotValid(nil, "spec of the host is no spec of a BareMetalHost: "+err.Error())
	}
	if a.ReserveFor != "" {
		if _, err := h.state.Controller().Models().Get(ctx, a.ReserveFor); err != nil {
			return "", errors.Trace(err)
		}
	}
	return h.hosts.Add(ctx, spec)
}

func credentials(c params.HostCredentials) bmc.Credentials {
	return bmc.Credentials{Username: string(c.Username), Password: string(c.Password)}
}

// SetCredentials gives the BMCs of hosts other credentials.
func (h *Hosts) SetCredentials(ctx context.Context, args params.SetHostsCredentials) (params.ErrorResults, error) {
	if !superuser(h.conn.Auth) {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Hosts, func(a params.SetHostCredentials) error {
		return h.hosts.SetCredentials(ctx, a.Name, credentials(a.Credentials))
	}), nil
}

// Do asks something of hosts, such as to be switched on, or to be removed.
func (h *Hosts) Do(ctx context.Context, args params.HostActions) (params.ErrorResults, error) {
	if !superuser(h.conn.Auth) {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Actions, func(a params.HostAction) error {
		switch a.Action {
		case "remove", "remove-by-force":
			return h.hosts.Remove(ctx, a.Name, a.Action == "remove-by-force")
		}
		return h.hosts.Do(ctx, a.Name, host.Action(a.Action))
	}), nil
}

// each does something for each argument of a bulk call.
func each[T any](args []T, do func(T) error) params.ErrorResults {
	results := make([]params.ErrorResult, len(args))
	for i, a := range args {
		results[i].Error = common.OwnError(do(a))
	}
	return params.ErrorResults{Results: results}
}
