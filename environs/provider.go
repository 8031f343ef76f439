package environs

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/environs/config"
)

// Environ is a provider as one model sees it.
type Environ interface {
	InstanceBroker

	// SetConfig replaces the model's settings, which have been validated. If
	// it fails, the old ones stay in force.
	SetConfig(ctx context.Context, cfg *config.Config) error

	// Precheck refuses, cheaply and before the machine is recorded, what
	// StartInstance would be sure to refuse. The error satisfies
	// errors.NotValid.
	Precheck(ctx context.Context, p PrecheckParams) error

	// ConstraintsValidator returns what the provider can do with constraints.
	ConstraintsValidator(ctx context.Context) (*constraints.Validator, error)

	// Destroy stops every instance of the model and removes what else the
	// provider keeps for it. It may be called again after a failure.
	Destroy(ctx context.Context) error
}

// PrecheckParams describes a machine that is about to be asked for.
type PrecheckParams struct {
	Base        base.Base
	Constraints constraints.Value
	Placement   string // in the provider's own words; empty means anywhere
}

// OpenParams says what model to open an Environ for.
type OpenParams struct {
	ControllerUUID string
	Config         *config.Config

	// Epoch grows with every worker that starts to care for the model; 0 means
	// that the caller is none. A provider that can refuses whatever comes late,
	// with an epoch before one that it has seen.
	Epoch int64

	// Hosts are the site's bare-metal hosts; nil means that the caller starts no
	// machines, and only wants to know what the provider thinks of one.
	Hosts HostPool
}

// Provider is one kind of place that machines can be in.
type Provider interface {
	// Open returns the provider as the model of p sees it. It is cheap, and
	// makes nothing. The settings have been validated.
	Open(ctx context.Context, p OpenParams) (Environ, error)

	// Validate returns cfg with the provider's own settings checked and in
	// the form in which they are kept. If old is not nil, cfg is to replace
	// it. Errors satisfy errors.NotValid.
	Validate(cfg, old *config.Config) (*config.Config, error)

	// Schema returns the table of the provider's own settings.
	Schema() config.Schema
}

// Registry finds providers by name. It never changes.
type Registry struct {
	providers map[string]Provider
}

// NewRegistry returns a registry of the given providers.
func NewRegistry(providers map[string]Provider) *Registry {
	return &Registry{maps.Clone(providers)}
}

// Names returns the names of all providers, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.providers)) }

// Provider returns the provider called name, or an error satisfying
// errors.NotFound.
func (r *Registry) Provider(name string) (Provider, error) {
	p, ok := r.providers[name]
	if !ok {
		return nil, errors.WithType(errors.Errorf("no registered provider for %q", name), errors.NotFound)
	}
	return p, nil
}

// Validate checks cfg, which is to replace old unless that is nil, both in
// general and as its provider does, and returns it as it is to be kept.
func (r *Registry) Validate(cfg, old *config.Config) (*config.Config, error) {
	p, err := r.Provider(cfg.Type())
	if err != nil {
		return nil, err
	}
	if err := config.Validate(cfg, old); err != nil {
		return nil, err
	}
	return p.Validate(cfg, old)
}

// Open validates the settings in p and opens an Environ with them.
func (r *Registry) Open(ctx context.Context, p OpenParams) (Environ, error) {
	cfg, err := r.Validate(p.Config, nil)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot open model %q", p.Config.Name())
	}
	provider, err := r.Provider(cfg.Type())
	if err != nil {
		return nil, err
	}
	p.Config = cfg
	e, err := provider.Open(ctx, p)
	return e, errors.Annotatef(err, "cannot open model %q", cfg.Name())
}
