package baremetal

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

// Name is the provider's name in the registry.
const Name = "baremetal"

// Provider implements environs.Provider. The zero value is usable.
type Provider struct {
	// Hosts returns the hosts for an environ that is opened without any; nil means
	// that such an environ has none.
	Hosts func(o environs.OpenParams) environs.HostPool
}

var _ environs.Provider = Provider{}

// Open implements environs.Provider.
func (p Provider) Open(_ context.Context, o environs.OpenParams) (environs.Environ, error) {
	s, err := settingsOf(o.Config)
	if err != nil {
		return nil, err
	}
	hosts := o.Hosts
	if hosts == nil && p.Hosts != nil {
		hosts = p.Hosts(o)
	}
	return &environ{
		hosts: hosts, allocator: &gatherer{hosts: hosts}, settings: s,
		owner: environs.Owner{ControllerUUID: o.ControllerUUID, ModelUUID: o.Config.UUID()},
	}, nil
}

// Validate implements environs.Provider.
func (Provider) Validate(cfg, old *config.Config) (*config.Config, error) {
	cfg, err := cfg.Coerce(schema(), old)
	if err != nil {
		return nil, errors.Trace(err)
	}
	_, err = settingsOf(cfg)
	return cfg, err
}

// Schema implements environs.Provider.
func (Provider) Schema() config.Schema { return schema() }
