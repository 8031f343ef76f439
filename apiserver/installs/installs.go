// Package installs is the facade Installs, version 1, an addition of this project to
// the protocol: what installers of bare-metal hosts are to do, and how far they are. The one
// manager that holds the site's lease orders; superusers look on.
package installs

import (
	"context"
	"encoding/json"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/install"
)

// Installs is the facade of one connection.
type Installs struct {
	installs *install.Installs
	hosts    *host.Hosts
	docs     *state.SiteDocs
	conn     common.Connection
}

// New returns the facade of a connection, or ErrPerm if the caller is neither a
// manager nor a superuser.
func New(st *state.State, c common.Connection) (*Installs, error) {
	if !c.Auth.AuthModelManager() && !superuser(c.Auth) {
		return nil, common.ErrPerm
	}
	docs := st.SiteDocs()
	return &Installs{install.New(docs), host.New(docs), docs, c}, nil
}

func superuser(a common.Authorizer) bool { return a.ControllerAccess().Includes(access.Superuser) }

// Watch tells of which hosts the orders change, by UID. It is for managers, as are
// all but Show and Log.
func (i *Installs) Watch(ctx context.Context) (params.StringsWatchResult, error) {
	if !i.conn.Auth.AuthModelManager() {
		return params.StringsWatchResult{}, common.ErrPerm
	}
	w, err := i.installs.Watch(ctx)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return common.RegisterStrings(ctx, i.conn.Resources, w)
}

// Status returns how the orders of hosts stand, of those that have one. It tells the
// secret paths of their media, so it is for the holder of the site's lease.
func (i *Installs) Status(ctx context.Context, args params.HostUIDs) (params.InstallStatuses, error) {
	var out params.InstallStatuses
	if !i.conn.Auth.AuthModelManager() {
		return out, common.ErrPerm
	}
	if _, err := i.docs.Epoch(ctx); err != nil {
		return out, errors.Trace(err)
	}
	found, err := i.installs.Get(ctx, args.Hosts, true)
	if err != nil {
		return out, errors.Trace(err)
	}
	base, err := i.conn.MediaURL(ctx)
	if err != nil && !errors.Is(err, errors.NotSupported) {
		return out, errors.Trace(err)
	}
	for _, one := range found {
		s, err := i.status(one, base)
		if err != nil {
			return out, err
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out, nil
}

// status returns an order as it goes over the wire. Without a base it has no media.
func (i *Installs) status(one install.Install, base string) (params.InstallStatus, error) {
	s := params.InstallStatus{
		Host: one.Host, Purpose: string(one.Purpose), Image: one.Image.URL, Phase: string(one.Phase), Step: one.Step, Message: one.Message,
		Number: one.Number, Tries: one.Tries, Now: i.docs.Now(), Started: one.BootStarted, Heard: one.Heard,
		Prepared: one.Prepared, Booted: one.Booted, Ejected: one.Ejected, Restarted: one.Restarted,
	}
	if base != "" && one.Medium != "" {
		s.ISO = params.Secret(base + below.MediumPath(one.Host, string(one.Medium), false))
		s.HTTPBoot = params.Secret(base + below.MediumPath(one.Host, string(one.Medium), true))
	}
	if d := install.Details(one.Inventory, one.Firmware); d != nil && one.Purpose == install.PurposeInstall && one.Phase == install.PhaseDone {
		var err error
		if s.Details, err = json.Marshal(d); err != nil {
			return s, errors.Annotate(err, "cannot encode hardware details")
		}
	}
	return s, nil
}

// Start makes orders, each in place of any other that its host has.
func (i *Installs) Start(ctx context.Context, args params.InstallOrders) (params.InstallStatusResults, error) {
	if !i.conn.Auth.AuthModelManager() {
		return params.InstallStatusResults{}, common.ErrPerm
	}
	results := make([]params.InstallStatusResult, len(args.Orders))
	for n, a := range args.Orders {
		s, err := i.start(ctx, a)
		if err != nil {
			if errors.Is(err, errors.NotValid) { // the code tells the caller that another try is in vain
				err = errors.WithType(err, errors.BadRequest)
			}
			results[n].Error = common.OwnError(err)
			continue
		}
		results[n].Result = &s
	}
	return params.InstallStatusResults{Results: results}, nil
}

func (i *Installs) start(ctx context.Context, a params.InstallOrder) (params.InstallStatus, error) {
	base, err := i.conn.MediaURL(ctx)
	if err != nil {
		return params.InstallStatus{}, errors.Trace(err)
	}
	o := install.Order{
		Purpose: install.Purpose(a.Purpose), Soft: a.Soft, Host: a.Host, Name: a.Name, BootMAC: a.BootMAC, KeepDisks: a.KeepDisks, Erase: a.Erase,
		Data: install.Data{User: config.Secret(a.UserData), Network: config.Secret(a.NetworkData), Meta: config.Secret(a.MetaData)},
	}
	for _, part := range []struct {
		what string
		text json.RawMessage
		to   any
	}{{"image", a.Image, &o.Image}, {"root device hints", a.RootHints, &o.RootHints}, {"installer's network", a.Network, &o.Network}} {
		if len(part.text) == 0 {
			continue
		}
		if err := json.Unmarshal(part.text, part.to); err != nil {
			return params.InstallStatus{}, errors.NewNotValid(nil, "the "+part.what+" cannot be read: "+err.Error())
		}
	}
	one, err := i.installs.Start(ctx, o)
	if err != nil {
		return params.InstallStatus{}, errors.Trace(err)
	}
	return i.status(one, base)
}

// each does something for each argument of a bulk call.
func each[T any](args []T, do func(T) error) params.ErrorResults {
	results := make([]params.ErrorResult, len(args))
	for n, a := range args {
		results[n].Error = common.OwnError(do(a))
	}
	return params.ErrorResults{Results: results}
}

// Mark notes that orders have passed a point.
func (i *Installs) Mark(ctx context.Context, args params.InstallMarks) (params.ErrorResults, error) {
	if !i.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Marks, func(m params.InstallMark) error { return i.installs.Mark(ctx, m.Host, install.Mark(m.Mark)) }), nil
}

// Renew gives up boots, and orders others.
func (i *Installs) Renew(ctx context.Context, args params.InstallRenewals) (params.ErrorResults, error) {
	if !i.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Renewals, func(r params.InstallRenewal) error { return i.installs.Renew(ctx, r.Host, r.Number, r.Reason) }), nil
}

// Cancel forgets all about the orders of hosts.
func (i *Installs) Cancel(ctx context.Context, args params.HostUIDs) (params.ErrorResults, error) {
	if !i.conn.Auth.AuthModelManager() {
		return params.ErrorResults{}, common.ErrPerm
	}
	return each(args.Hosts, func(h string) error { return i.installs.Cancel(ctx, h) }), nil
}

// known returns the order of a host given by name, nil if it never had one.
func (i *Installs) known(ctx context.Context, name string) (*install.Install, error) {
	h, err := i.hosts.Get(ctx, name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	found, err := i.installs.Get(ctx, []string{h.Record.Metadata.UID}, false)
	if err != nil || len(found) == 0 {
		return nil, errors.Trace(err)
	}
	return &found[0], nil
}

// Show returns what is known of the installers of hosts. A host that was never installed
// has an empty report.
func (i *Installs) Show(ctx context.Context, args params.HostNames) (params.InstallReportResults, error) {
	if !superuser(i.conn.Auth) {
		return params.InstallReportResults{}, common.ErrPerm
	}
	results := make([]params.InstallReportResult, len(args.Names))
	for n, name := range args.Names {
		one, err := i.known(ctx, name)
		if err == nil {
			results[n].Result, err = report(one)
		}
		results[n].Error = common.OwnError(err)
	}
	return params.InstallReportResults{Results: results}, nil
}

func report(one *install.Install) (*params.InstallReport, error) {
	if one == nil {
		return &params.InstallReport{}, nil
	}
	r := &params.InstallReport{Phase: string(one.Phase), Step: one.Step, Message: one.Message, Inventory: one.Inventory, Firmware: one.Firmware, Health: one.Health}
	for _, b := range one.Boots {
		r.Boots = append(r.Boots, params.InstallBoot{Number: b.Number, Purpose: string(b.Purpose), Started: b.Started, Ended: b.Ended, Phase: string(b.Phase), Message: b.Message})
	}
	var err error
	if len(one.Steps) > 0 {
		if r.Steps, err = json.Marshal(one.Steps); err != nil {
			return nil, errors.Annotate(err, "cannot encode steps")
		}
	}
	if one.Disk != (config.DiskID{}) {
		r.Disk, err = json.Marshal(one.Disk)
	}
	return r, errors.Annotate(err, "cannot encode disk")
}
