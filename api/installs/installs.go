// Package installs asks the Installs facade, version 1: what installers of bare-metal
// hosts are to do, and how far they are.
package installs

import (
	"context"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Client makes the calls. Its methods may be called concurrently.
type Client struct {
	facade api.Facade
}

// New returns a client. People connect to the controller, managers to any model.
func New(c api.Caller) *Client {
	return &Client{api.Facade{Caller: c, Type: "Installs", Version: 1}}
}

// Show returns what is known of the installer of a host, given by name.
func (c *Client) Show(ctx context.Context, name string) (params.InstallReport, error) {
	var r params.InstallReportResults
	if err := c.facade.Call(ctx, "Show", params.HostNames{Names: []string{name}}, &r); err != nil {
		return params.InstallReport{}, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.InstallReportResult) (params.InstallReport, *params.Error) {
		return api.Present(r.Result, r.Error, "report")
	}))
}

// Log returns lines of the log of one boot of a host's installer.
func (c *Client) Log(ctx context.Context, q params.InstallLogQuery) (params.InstallLog, error) {
	var r params.InstallLog
	err := c.facade.Call(ctx, "Log", q, &r)
	return r, err
}

// Watch watches of which hosts the orders change, by UID. It is for managers, as is
// everything below.
func (c *Client) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.facade.Caller, c.facade.Request("Watch"))
}

// Status returns how the orders of hosts stand, of those that have one. The error
// satisfies kind.LeaseDenied for whoever does not hold the site's lease.
func (c *Client) Status(ctx context.Context, hosts []string) ([]params.InstallStatus, error) {
	var r params.InstallStatuses
	err := c.facade.Call(ctx, "Status", params.HostUIDs{Hosts: hosts}, &r)
	return r.Statuses, err
}

// Start makes an order for a host, in place of any other. The error satisfies
// errors.BadRequest for an order that cannot be carried out, and errors.NotSupported if the
// controller has no installer.
func (c *Client) Start(ctx context.Context, o params.InstallOrder) (params.InstallStatus, error) {
	var r params.InstallStatusResults
	if err := c.facade.Call(ctx, "Start", params.InstallOrders{Orders: []params.InstallOrder{o}}, &r); err != nil {
		return params.InstallStatus{}, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.InstallStatusResult) (params.InstallStatus, *params.Error) {
		return api.Present(r.Result, r.Error, "status")
	}))
}

// Mark notes that a host's order has passed a point.
func (c *Client) Mark(ctx context.Context, host, mark string) error {
	return c.facade.Error(ctx, "Mark", params.InstallMarks{Marks: []params.InstallMark{{Host: host, Mark: mark}}})
}

// Renew gives up a host's present boot, and orders another one.
func (c *Client) Renew(ctx context.Context, r params.InstallRenewal) error {
	return c.facade.Error(ctx, "Renew", params.InstallRenewals{Renewals: []params.InstallRenewal{r}})
}

// Cancel forgets all about a host's orders.
func (c *Client) Cancel(ctx context.Context, host string) error {
	return c.facade.Error(ctx, "Cancel", params.HostUIDs{Hosts: []string{host}})
}
