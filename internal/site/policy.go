package site

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
)

// policyTimeout bounds one question to a provider, which a caller waits for.
const policyTimeout = 5 * time.Second

// policy has a model's provider judge new machines before they are recorded. A
// provider that does not answer in time judges nothing: the machine is recorded,
// and its start will tell.
type policy struct {
	registry *environs.Registry

	mu   sync.Mutex
	open map[string]opened // by model UUID
	said map[string]string // what was logged last, by model UUID
}

// opened is a model's environ, and the configuration that it was opened with.
type opened struct {
	cfg     *config.Config
	environ environs.Environ
}

func newPolicy(r *environs.Registry) *policy {
	return &policy{registry: r, open: make(map[string]opened), said: make(map[string]string)}
}

// notAsked logs why a provider could not be asked, unless that was logged last.
func (p *policy) notAsked(st *state.State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := err.Error(); p.said[st.ModelUUID()] != text {
		p.said[st.ModelUUID()] = text
		logger.Warningf("the provider of model %s is not asked about new machines: %s", st.ModelUUID(), text)
	}
}

// environ returns the provider as a model sees it, opened anew whenever the
// model's configuration has changed.
func (p *policy) environ(ctx context.Context, st *state.State) (environs.Environ, error) {
	cfg, err := st.ModelConfig().Get(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.open[st.ModelUUID()]; ok && reflect.DeepEqual(o.cfg.SetAttrs(), cfg.SetAttrs()) {
		return o.environ, nil
	}
	e, err := p.registry.Open(ctx, environs.OpenParams{ControllerUUID: st.Controller().ControllerUUID(), Config: cfg})
	if err != nil {
		return nil, errors.Trace(err)
	}
	p.open[st.ModelUUID()] = opened{cfg: cfg, environ: e}
	return e, nil
}

// PrecheckMachine implements state.Policy.
func (p *policy) PrecheckMachine(ctx context.Context, st *state.State, spec state.MachineSpec) error {
	if spec.ContainerType != "" && spec.Parent != "" {
		return nil // its host will tell
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	e, err := p.environ(ctx, st)
	if err == nil {
		err = e.Precheck(ctx, environs.PrecheckParams{Base: spec.Base, Constraints: spec.Constraints, Placement: spec.Placement})
	}
	if err != nil && !errors.Is(err, errors.NotValid) {
		p.notAsked(st, err)
		return nil
	}
	return err
}

// ConstraintsValidator implements state.Policy.
func (p *policy) ConstraintsValidator(ctx context.Context, st *state.State) (*constraints.Validator, error) {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	e, err := p.environ(ctx, st)
	if err == nil {
		var v *constraints.Validator
		if v, err = e.ConstraintsValidator(ctx); err == nil {
			return v, nil
		}
	}
	p.notAsked(st, err)
	return &constraints.Validator{}, nil
}

// CheckConfig implements state.Policy.
func (p *policy) CheckConfig(next, old *config.Config) (*config.Config, error) {
	return p.registry.Validate(next, old)
}
