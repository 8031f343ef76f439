package containers

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/watcher"
)

// hostAPI is the controller as a provisioner of one machine's containers sees
// it.
type hostAPI struct {
	API
	host      string // id of the machine
	retries   func(ctx context.Context) (watcher.NotifyWatcher, error)
	addresses []string // under which the machine reaches the API
}

// WatchModelMachines watches the containers instead: they are all the machines
// there are.
func (a hostAPI) WatchModelMachines(ctx context.Context) (watcher.StringsWatcher, error) {
	return a.API.WatchContainers(ctx, a.host, string(container.LXD))
}

// WatchMachineErrorRetry watches retries of the containers instead: the watcher of
// that name is for managers.
func (a hostAPI) WatchMachineErrorRetry(ctx context.Context) (watcher.NotifyWatcher, error) {
	if a.retries == nil {
		return newSilence(), nil
	}
	return a.retries(ctx)
}

// MachinesWithTransientErrors returns those that are containers of the machine: the
// machine itself is somebody else's.
func (a hostAPI) MachinesWithTransientErrors(ctx context.Context) ([]apiprovisioner.Transient, error) {
	all, err := a.API.MachinesWithTransientErrors(ctx)
	return slices.DeleteFunc(all, func(t apiprovisioner.Transient) bool {
		return tag.Parent(t.ID) != a.host || tag.ContainerType(t.ID) != container.LXD
	}), errors.Trace(err)
}

// APIAddresses returns the addresses under which the machine itself reaches the
// API, and then those that the controller publishes.
func (a hostAPI) APIAddresses(ctx context.Context) ([]string, error) {
	published, err := a.API.APIAddresses(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := slices.Clone(a.addresses)
	for _, addr := range published {
		if !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out, nil
}

// silence is a watcher that nothing ever comes of.
type silence struct {
	tomb    tomb.Tomb
	changes chan struct{}
}

func newSilence() *silence {
	s := &silence{changes: make(chan struct{})}
	s.tomb.Go(func() error {
		defer close(s.changes)
		<-s.tomb.Dying()
		return nil
	})
	return s
}

// Changes implements watcher.NotifyWatcher.
func (s *silence) Changes() <-chan struct{} { return s.changes }

// Kill implements watcher.NotifyWatcher.
func (s *silence) Kill() { s.tomb.Kill(nil) }

// Wait implements watcher.NotifyWatcher.
func (s *silence) Wait() error { return s.tomb.Wait() }

// providers opens the machine's own LXD server, whatever the model's other
// machines are on.
type providers struct{ cfg Config }

// Validate implements provisioner.Providers.
func (p providers) Validate(cfg, old *config.Config) (*config.Config, error) {
	if err := config.Validate(cfg, old); err != nil {
		return nil, errors.Trace(err)
	}
	return lxd.New(p.cfg.LXD).Validate(local(cfg), nil)
}

// Open implements provisioner.Providers.
func (p providers) Open(ctx context.Context, o environs.OpenParams) (environs.Environ, error) {
	o.Config = local(o.Config)
	e, err := lxd.New(p.cfg.LXD).Open(ctx, o)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return hostEnviron{Environ: e, host: p.cfg.MachineID, named: p.cfg.named}, nil
}

// local returns a model's settings without those that say which LXD servers its
// machines are on: this machine's own is meant.
func local(cfg *config.Config) *config.Config {
	out, err := cfg.Remove([]string{lxd.HostsKey, lxd.ClientCertKey, lxd.ClientKeyKey, lxd.ServerCertsKey})
	if err != nil {
		return cfg // which is then refused for what is wrong with it
	}
	return out
}

// hostEnviron is the machine's own LXD server, of which nothing but the
// machine's containers is seen.
type hostEnviron struct {
	environs.Environ
	host  string
	named func([]network.Interface) []network.Interface // see Config.named
}

// AllInstances implements environs.InstanceBroker.
func (e hostEnviron) AllInstances(ctx context.Context) ([]environs.Instance, error) {
	all, err := e.Environ.AllInstances(ctx)
	return slices.DeleteFunc(all, func(i environs.Instance) bool { return !e.holds(i.Owner.MachineID) }), errors.Trace(err)
}

// StartInstance implements environs.InstanceBroker.
func (e hostEnviron) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	if !e.holds(p.Owner.MachineID) {
		return environs.StartInstanceResult{}, errors.NotValidf("machine %s as a container of machine %s", p.Owner.MachineID, e.host)
	}
	p.Placement = "" // said where the container goes, which is here
	p.Network = e.named(p.Network)
	return e.Environ.StartInstance(ctx, p)
}

// StopInstances implements environs.InstanceBroker. An id that is no container of
// the machine is none of its business, and so counts as gone.
func (e hostEnviron) StopInstances(ctx context.Context, ids []instance.ID) ([]error, error) {
	mine, err := e.AllInstances(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	results := make([]error, len(ids))
	var stop []instance.ID
	var at []int
	for i, id := range ids {
		if slices.ContainsFunc(mine, func(m environs.Instance) bool { return m.ID == id }) {
			stop, at = append(stop, id), append(at, i)
		}
	}
	errs, err := e.Environ.StopInstances(ctx, stop)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for n, i := range at {
		results[i] = errs[n]
	}
	return results, nil
}

// holds reports whether a machine is a container directly in this one.
func (e hostEnviron) holds(machineID string) bool {
	return strings.HasPrefix(machineID, e.host+"/") && tag.Parent(machineID) == e.host
}
