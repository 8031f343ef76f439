// Package below adapts state to what several facades need of the site and of
// their model, so that each facade's own adapter holds only what is its own.
package below

import (
	"context"
	"net"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/watcher"
)

// The settings of the site that are told to agents.
const (
	CACertKey    = "ca-cert"    // PEM
	StatePortKey = "state-port" // of the store, where it is a server of its own
)

// defaultStatePort is the store's port where the site does not say another.
const defaultStatePort = 37017

// Site is where the site can be reached, and how to know it.
type Site struct{ State *state.State }

// ModelUUID returns the UUID of the model.
func (s Site) ModelUUID() string { return s.State.ModelUUID() }

// APIHostPorts returns, for each API server, where it can be reached.
func (s Site) APIHostPorts(ctx context.Context) ([][]network.HostPort, error) {
	return s.State.Controller().APIHostPorts(ctx)
}

// WatchAPIHostPorts tells of changes of APIHostPorts.
func (s Site) WatchAPIHostPorts(context.Context) (watcher.NotifyWatcher, error) {
	return s.State.Controller().WatchAPIHostPorts(), nil
}

// CACert returns the site's certificate authority, as PEM.
func (s Site) CACert(ctx context.Context) (string, error) {
	attrs, err := s.State.Controller().ControllerConfig(ctx)
	if err != nil {
		return "", errors.Trace(err)
	}
	cert, ok := attrs[CACertKey].(string)
	if !ok {
		return "", errors.NotFoundf("CA certificate")
	}
	return cert, nil
}

// StateAddresses returns where the store can be reached: on the machines that run
// the site, or, if their addresses are not known, where the API servers are.
func (s Site) StateAddresses(ctx context.Context) ([]string, error) {
	c := s.State.Controller()
	st, err := c.State(ctx, c.ControllerModelUUID())
	if err != nil {
		return nil, errors.Trace(err)
	}
	machines, err := st.Machines().All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	attrs, err := c.ControllerConfig(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	port := strconv.Itoa(statePort(attrs))
	var addrs []string
	managers := 0
	for _, m := range machines {
		if !m.IsManager() || m.Worker() != "" {
			continue
		}
		managers++
		if a, ok := m.PrivateAddress(); ok {
			addrs = append(addrs, net.JoinHostPort(a.Value, port))
		}
	}
	if managers == 0 {
		return nil, errors.New("no controller machines found")
	}
	if len(addrs) == 0 {
		if addrs, err = s.besideAPI(ctx, port); err != nil {
			return nil, errors.Trace(err)
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("no controller machines with addresses found")
	}
	return addrs, nil
}

// statePort reads the port, which JSON makes a float.
func statePort(attrs map[string]any) int {
	switch port := attrs[StatePortKey].(type) {
	case int:
		return port
	case float64:
		return int(port)
	}
	return defaultStatePort
}

// besideAPI returns the preferred address of each API server.
func (s Site) besideAPI(ctx context.Context, port string) ([]string, error) {
	servers, err := s.APIHostPorts(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var addrs []string
	for _, server := range servers {
		plain := make([]network.Address, len(server))
		for i, hp := range server {
			plain[i] = hp.Address
		}
		if a, ok := network.PreferredPrivate(plain); ok {
			addrs = append(addrs, net.JoinHostPort(a.Value, port))
		}
	}
	return addrs, nil
}

// Config is the configuration of the model.
type Config struct{ State *state.State }

// Settings returns the model's configuration.
func (c Config) Settings(ctx context.Context) (*config.Config, error) {
	return c.State.ModelConfig().Get(ctx)
}

// ModelConfig returns every attribute of the model's configuration.
func (c Config) ModelConfig(ctx context.Context) (map[string]any, error) {
	settings, err := c.Settings(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return settings.AllAttrs(), nil
}

// WatchModelConfig tells of changes of ModelConfig.
func (c Config) WatchModelConfig(context.Context) (watcher.NotifyWatcher, error) {
	return c.State.ModelConfig().Watch(), nil
}

// AgentVersion returns the version that the model's agents are to run, empty if
// none is set.
func (c Config) AgentVersion(ctx context.Context) (string, error) {
	settings, err := c.Settings(ctx)
	if err != nil {
		return "", errors.Trace(err)
	}
	n, ok := settings.AgentVersion()
	if !ok {
		return "", nil
	}
	return n.String(), nil
}
