package common

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// StateAddresser gives a facade the method StateAddresses.
type StateAddresser struct {
	get func(ctx context.Context) ([]string, error)
}

// NewStateAddresser returns a StateAddresser that answers with what get returns.
func NewStateAddresser(get func(ctx context.Context) ([]string, error)) *StateAddresser {
	return &StateAddresser{get}
}

// StateAddresses returns where the site's own store can be reached, each
// "host:port".
func (a *StateAddresser) StateAddresses(ctx context.Context) (params.StringsResult, error) {
	addrs, err := a.get(ctx)
	if err != nil {
		return params.StringsResult{}, err
	}
	return params.StringsResult{Result: addrs}, nil
}

// APIAddresses is what APIAddresser needs from below.
type APIAddresses interface {
	// APIHostPorts returns, for each API server, where it can be reached.
	APIHostPorts(ctx context.Context) ([][]network.HostPort, error)
	// WatchAPIHostPorts tells of changes of APIHostPorts.
	WatchAPIHostPorts(ctx context.Context) (watcher.NotifyWatcher, error)
	// CACert returns the site's certificate authority, as PEM.
	CACert(ctx context.Context) (string, error)
	// ModelUUID returns the UUID of the connection's model.
	ModelUUID() string
}

// APIAddresser gives a facade the methods APIAddresses, APIHostPorts,
// WatchAPIHostPorts, CACert and ModelUUID.
type APIAddresser struct {
	below     APIAddresses
	resources *Resources
}

// NewAPIAddresser returns an APIAddresser whose watchers go to resources.
func NewAPIAddresser(below APIAddresses, resources *Resources) *APIAddresser {
	return &APIAddresser{below, resources}
}

// APIHostPorts returns, for each API server, where it can be reached.
func (a *APIAddresser) APIHostPorts(ctx context.Context) (params.APIHostPortsResult, error) {
	servers, err := a.below.APIHostPorts(ctx)
	if err != nil {
		return params.APIHostPortsResult{}, errors.Trace(err)
	}
	if servers == nil {
		servers = [][]network.HostPort{}
	}
	return params.APIHostPortsResult{Servers: servers}, nil
}

// APIAddresses returns where the API can be reached from other machines, each
// "host:port", the nearer addresses of each server first.
func (a *APIAddresser) APIAddresses(ctx context.Context) (params.StringsResult, error) {
	servers, err := a.below.APIHostPorts(ctx)
	if err != nil {
		return params.StringsResult{}, errors.Trace(err)
	}
	return params.StringsResult{Result: InternalAddresses(servers)}, nil
}

// InternalAddresses returns the addresses of all servers as "host:port", those
// within the site first for each server, without those that only the server
// itself can use.
func InternalAddresses(servers [][]network.HostPort) []string {
	var out []string
	for _, server := range servers {
		usable := slices.DeleteFunc(slices.Clone(server), func(hp network.HostPort) bool {
			return hp.Scope == network.ScopeMachineLocal || hp.Scope == network.ScopeLinkLocal
		})
		slices.SortStableFunc(usable, func(a, b network.HostPort) int { return distance(a) - distance(b) })
		for _, hp := range usable {
			out = append(out, net.JoinHostPort(hp.Value, strconv.Itoa(hp.Port)))
		}
	}
	return out
}

// distance is smaller for the addresses to prefer within a site.
func distance(hp network.HostPort) int {
	if hp.Scope == network.ScopeCloudLocal {
		return 0
	}
	return 1
}

// WatchAPIHostPorts tells of changes of APIHostPorts.
func (a *APIAddresser) WatchAPIHostPorts(ctx context.Context) (params.NotifyWatchResult, error) {
	w, err := a.below.WatchAPIHostPorts(ctx)
	if err != nil {
		return params.NotifyWatchResult{}, errors.Trace(err)
	}
	return RegisterNotify(ctx, a.resources, w)
}

// CACert returns the site's certificate authority, as PEM.
func (a *APIAddresser) CACert(ctx context.Context) (params.BytesResult, error) {
	cert, err := a.below.CACert(ctx)
	if err != nil {
		return params.BytesResult{}, errors.Trace(err)
	}
	return params.BytesResult{Result: []byte(cert)}, nil
}

// ModelUUID returns the UUID of the connection's model.
func (a *APIAddresser) ModelUUID() (params.StringResult, error) {
	return params.StringResult{Result: a.below.ModelUUID()}, nil
}
