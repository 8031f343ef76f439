// Package hosts asks the Hosts facade, version 1: for the bare-metal hosts of a
// site.
package hosts

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
	return &Client{api.Facade{Caller: c, Type: "Hosts", Version: 1}}
}

// List describes hosts, given by name; no names mean all hosts.
func (c *Client) List(ctx context.Context, names ...string) ([]api.Result[params.Host], error) {
	var r params.HostResults
	if err := c.facade.Call(ctx, "List", params.HostNames{Names: names}, &r); err != nil {
		return nil, err
	}
	want := len(names)
	if want == 0 {
		want = len(r.Results)
	}
	return api.ResultsOf(r.Results, want, func(r *params.HostResult) (params.Host, *params.Error) {
		return api.Present(r.Result, r.Error, "host")
	})
}

// Add adds hosts and returns their names. An error satisfies errors.NotValid for a host that
// cannot be one as it is described, errors.NotSupported for a BMC of an unknown type,
// errors.AlreadyExists if its name, BMC or MAC address is another's, and errors.NotFound for an
// unknown model to reserve it for.
func (c *Client) Add(ctx context.Context, hosts ...params.AddHost) ([]api.Result[string], error) {
	var r params.AddHostResults
	if err := c.facade.Call(ctx, "Add", params.AddHosts{Hosts: hosts}, &r); err != nil {
		return nil, err
	}
	return api.ResultsOf(r.Results, len(hosts), func(r *params.AddHostResult) (string, *params.Error) { return r.Name, r.Error })
}

// Do asks something of a host; see params.HostAction.
func (c *Client) Do(ctx context.Context, name, action string) error {
	return c.facade.Error(ctx, "Do", params.HostActions{Actions: []params.HostAction{{Name: name, Action: action}}})
}

// SetCredentials gives a host's BMC other credentials.
func (c *Client) SetCredentials(ctx context.Context, name string, creds params.HostCredentials) error {
	return c.facade.Error(ctx, "SetCredentials", params.SetHostsCredentials{Hosts: []params.SetHostCredentials{{Name: name, Credentials: creds}}})
}

// Watch watches of which hosts changes what is wanted, by name. It is for
// managers, as is everything below.
func (c *Client) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.facade.Caller, c.facade.Request("Watch"))
}

// Managed returns the hosts that there are among names, with their credentials. The
// error satisfies kind.LeaseDenied for whoever does not hold the site's lease.
func (c *Client) Managed(ctx context.Context, names []string) ([]params.ManagedHost, error) {
	var r params.ManagedHosts
	err := c.facade.Call(ctx, "Managed", params.HostNames{Names: names}, &r)
	return r.Hosts, err
}

// Data returns what the machine on a host is configured with, to the holder of the
// site's lease.
func (c *Client) Data(ctx context.Context, name string) (params.HostData, error) {
	var r params.HostDataResults
	if err := c.facade.Call(ctx, "Data", params.HostNames{Names: []string{name}}, &r); err != nil {
		return params.HostData{}, err
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.HostDataResult) (params.HostData, *params.Error) {
		return api.Present(r.Result, r.Error, "data")
	}))
}

// Intend notes for how long the caller may act on hosts. The errors are by host.
func (c *Client) Intend(ctx context.Context, intents ...params.HostIntent) ([]error, error) {
	return c.facade.Errors(ctx, "Intend", params.HostIntents{Intents: intents}, len(intents))
}

// Save replaces what is known of hosts. The errors are by host.
func (c *Client) Save(ctx context.Context, updates ...params.HostUpdate) ([]error, error) {
	return c.facade.Errors(ctx, "Save", params.HostUpdates{Updates: updates}, len(updates))
}

// Forget removes the records of hosts that have been let go. The errors are by host.
func (c *Client) Forget(ctx context.Context, names ...string) ([]error, error) {
	return c.facade.Errors(ctx, "Forget", params.HostNames{Names: names}, len(names))
}

// Allocate gives machines of the connection's model free hosts, and returns for each its
// host or an error in failed. A machine that has one with the same nonce keeps it; with
// another nonce its error satisfies errors.AlreadyExists. It is for the manager that
// holds the model's lease, as is everything below.
func (c *Client) Allocate(ctx context.Context, machines ...params.AllocateHost) (given []params.ConsumedHost, failed []error, err error) {
	var r params.ConsumedHostResults
	if err := c.facade.Call(ctx, "Allocate", params.AllocateHosts{Machines: machines}, &r); err != nil {
		return nil, nil, err
	}
	results, err := api.ResultsOf(r.Results, len(machines), func(r *params.ConsumedHostResult) (params.ConsumedHost, *params.Error) {
		return api.Present(r.Result, r.Error, "host")
	})
	for _, r := range results {
		given, failed = append(given, r.Value), append(failed, r.Err)
	}
	return given, failed, err
}

// Release takes hosts away from the machines of the model that have them. One that
// is free, or gone, is no error.
func (c *Client) Release(ctx context.Context, names ...string) ([]error, error) {
	return c.facade.Errors(ctx, "Release", params.HostNames{Names: names}, len(names))
}

// Consumed returns the hosts that machines of the model have: those among names, or
// all if there are no names.
func (c *Client) Consumed(ctx context.Context, names ...string) ([]params.ConsumedHost, error) {
	var r params.ConsumedHosts
	err := c.facade.Call(ctx, "Consumed", params.HostNames{Names: names}, &r)
	return r.Hosts, err
}

// WatchConsumed watches of which hosts, of all models, the manager's report changes,
// by name.
func (c *Client) WatchConsumed(ctx context.Context) (watcher.StringsWatcher, error) {
	return api.WatchStrings(ctx, c.facade.Caller, c.facade.Request("WatchConsumed"))
}

// Zones returns the zones that hosts are in, by name.
func (c *Client) Zones(ctx context.Context) ([]params.HostZone, error) {
	var r params.HostZones
	err := c.facade.Call(ctx, "Zones", nil, &r)
	return r.Zones, err
}
