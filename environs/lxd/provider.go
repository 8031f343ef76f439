package lxd

import (
	"context"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

var logger = loggo.GetLogger("slipway.environs.lxd")

// Name is the provider's name in the registry.
const Name = "lxd"

// DefaultSocket is where Debian's package has the daemon listen.
const DefaultSocket = "/var/lib/lxd/unix.socket"

// Options are what the machine that the provider runs on has to offer. The zero
// value is usable.
type Options struct {
	// Hosts are the LXD servers of models that name none: addresses, as
	// unix:///path or https://host:port, by zone. Only sockets named here are
	// ever used. Nil means none.
	Hosts map[string]string
	// AgentBinary is the path of a static agent that is written to the disk of
	// each container, which has to be of this machine's architecture. Empty
	// means that containers download theirs from the controller, for which their
	// images need cloud-init.
	AgentBinary string
}

// Provider implements environs.Provider.
type Provider struct{ options Options }

var _ environs.Provider = (*Provider)(nil)

// New returns the provider.
func New(o Options) *Provider { return &Provider{o} }

// Local returns the options of a worker that uses the LXD server of its own
// machine, given the path of the socket that this listens on, as the zone
// "local".
func Local(socket, agentBinary string) Options {
	return Options{Hosts: map[string]string{"local": "unix://" + socket}, AgentBinary: agentBinary}
}

// Open implements environs.Provider.
func (p *Provider) Open(_ context.Context, o environs.OpenParams) (environs.Environ, error) {
	e := &Environ{
		options: p.options,
		owner:   environs.Owner{ControllerUUID: o.ControllerUUID, ModelUUID: o.Config.UUID()},
		busy:    map[string]chan struct{}{},
	}
	if err := e.configure(o.Config); err != nil {
		return nil, err
	}
	return e, nil
}

// Validate implements environs.Provider.
func (p *Provider) Validate(cfg, old *config.Config) (*config.Config, error) {
	cfg, err := cfg.Coerce(schema(), old)
	if err != nil {
		return nil, errors.Trace(err)
	}
	_, err = settingsOf(cfg)
	return cfg, err
}

// Schema implements environs.Provider.
func (p *Provider) Schema() config.Schema { return schema() }
