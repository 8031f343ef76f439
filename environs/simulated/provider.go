package simulated

import (
	"context"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

// Name is what the provider is called in a registry.
const Name = "simulated"

// The provider's settings.
const (
	RackURL   = "rack-url"
	RackToken = "rack-token"
)

// Backend is a rack: a *Rack in this process or a *Client of one in another.
type Backend interface {
	Describe(ctx context.Context) (Description, error)
	Start(ctx context.Context, q StartRequest) (StartReply, error)
	Stop(ctx context.Context, q StopRequest) ([]error, error)
	List(ctx context.Context, q ListRequest) ([]environs.Instance, error)
}

var (
	_ Backend          = (*Rack)(nil)
	_ Backend          = (*Client)(nil)
	_ environs.Environ = (*environ)(nil)
	_ environs.Zoned   = (*environ)(nil)
)

// Provider makes racks into environs.
type Provider struct {
	// Rack serves the models that name no rack-url; nil means that every model
	// has to name one.
	Rack Backend
}

// Schema implements environs.Provider.
func (Provider) Schema() config.Schema {
	return config.Schema{
		{Name: RackURL, Check: checkURL, Doc: "Where the simulated rack is, http://host:port; empty means in the process that asks."},
		{Name: RackToken, Secret: true, Doc: "The token of the simulated rack, as its rack.token file has it."},
	}
}

// checkURL accepts the address of a rack.
func checkURL(value any) error {
	return DialConfig{URL: value.(string), Token: "any"}.Validate()
}

// Validate implements environs.Provider.
func (p Provider) Validate(cfg, old *config.Config) (*config.Config, error) {
	cfg, err := cfg.Coerce(p.Schema(), old)
	if err != nil {
		return nil, err
	}
	attrs := config.Attrs(cfg.UnknownAttrs())
	if attrs.String(RackURL) != "" && attrs.String(RackToken) == "" {
		return nil, errors.NewNotValid(nil, RackToken+" missing from model configuration: "+RackURL+" needs it")
	}
	return cfg, nil
}

// Open implements environs.Provider.
func (p Provider) Open(_ context.Context, o environs.OpenParams) (environs.Environ, error) {
	rack, err := p.backend(o.Config)
	if err != nil {
		return nil, err
	}
	return &environ{provider: p, site: o.ControllerUUID, model: o.Config.UUID(), epoch: o.Epoch, rack: rack}, nil
}

// backend returns the rack of a model.
func (p Provider) backend(cfg *config.Config) (Backend, error) {
	attrs := config.Attrs(cfg.UnknownAttrs())
	if url := attrs.String(RackURL); url != "" {
		return Dial(DialConfig{URL: url, Token: attrs.String(RackToken)})
	}
	if p.Rack == nil {
		return nil, errors.NewNotValid(nil, RackURL+" missing from model configuration: this process has no rack of its own")
	}
	return p.Rack, nil
}

// environ is a rack as one model sees it.
type environ struct {
	provider    Provider
	site, model string // UUIDs of whose instances these are
	epoch       int64  // of the worker that asks

	mu   sync.Mutex
	rack Backend
	has  *Description // nil until it was asked for
}

// backend returns the rack in use now.
func (e *environ) backend() Backend {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rack
}

// SetConfig implements environs.Environ. Calls under way go on at the rack
// where they began.
func (e *environ) SetConfig(_ context.Context, cfg *config.Config) error {
	rack, err := e.provider.backend(cfg)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.rack.(*Client); ok {
		c.Close()
	}
	e.rack, e.has = rack, nil
	return nil
}

// describe returns what the rack has, asking it once.
func (e *environ) describe(ctx context.Context) (Description, error) {
	e.mu.Lock()
	rack, has := e.rack, e.has
	e.mu.Unlock()
	if has != nil {
		return *has, nil
	}
	d, err := rack.Describe(ctx)
	if err != nil {
		return Description{}, errors.Annotate(err, "cannot get hardware of rack")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rack == rack {
		e.has = &d
	}
	return d, nil
}

// Precheck implements environs.Environ.
func (e *environ) Precheck(ctx context.Context, p environs.PrecheckParams) error {
	d, err := e.describe(ctx)
	if err != nil {
		return err
	}
	if _, err := d.parsePlacement(p.Placement); err != nil {
		return err
	}
	if _, err := d.fitting(p.Constraints); err != nil {
		return errors.WithType(err, errors.NotValid)
	}
	return nil
}

// ConstraintsValidator implements environs.Environ.
func (e *environ) ConstraintsValidator(ctx context.Context) (*constraints.Validator, error) {
	d, err := e.describe(ctx)
	if err != nil {
		return nil, err
	}
	return d.validator(), nil
}

// AvailabilityZones implements environs.Zoned.
func (e *environ) AvailabilityZones(ctx context.Context) ([]environs.Zone, error) {
	d, err := e.describe(ctx)
	return d.Zones, err
}

// StartInstance implements environs.InstanceBroker.
func (e *environ) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	var none environs.StartInstanceResult
	if err := p.Validate(); err != nil {
		return none, err
	}
	if p.Owner.ControllerUUID != e.site || p.Owner.ModelUUID != e.model {
		return none, errors.NotValidf("start of machine %s of another model", p.Owner.MachineID)
	}
	q := startRequest(p)
	q.Epoch = e.epoch
	if p.DistributionGroup != nil {
		group, err := p.DistributionGroup(ctx)
		if err != nil {
			return none, errors.Annotate(err, "cannot get distribution group")
		}
		q.Group = group
	}
	p.Report(status.Allocating, "waiting for the rack")
	reply, err := e.backend().Start(ctx, q)
	if err != nil {
		return none, errors.Trace(err)
	}
	p.Report(reply.Instance.Status, reply.Instance.Message)
	return environs.StartInstanceResult{Instance: reply.Instance, Existed: reply.Existed}, nil
}

// StopInstances implements environs.InstanceBroker.
func (e *environ) StopInstances(ctx context.Context, ids []instance.ID) ([]error, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return e.backend().Stop(ctx, StopRequest{ControllerUUID: e.site, ModelUUID: e.model, IDs: ids, Epoch: e.epoch})
}

// AllInstances implements environs.InstanceBroker.
func (e *environ) AllInstances(ctx context.Context) ([]environs.Instance, error) {
	return e.backend().List(ctx, ListRequest{ControllerUUID: e.site, ModelUUID: e.model, Epoch: e.epoch})
}

// Instances implements environs.InstanceBroker.
func (e *environ) Instances(ctx context.Context, ids []instance.ID) ([]environs.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := e.AllInstances(ctx)
	if err != nil {
		return nil, err
	}
	return environs.SelectInstances(all, ids)
}

// MaintainInstance implements environs.InstanceBroker: there is nothing to do.
func (e *environ) MaintainInstance(context.Context, string, instance.ID) error { return nil }

// Destroy implements environs.Environ. The first instance that cannot be
// stopped is the error; the others are stopped all the same.
func (e *environ) Destroy(ctx context.Context) error {
	all, err := e.AllInstances(ctx)
	if err != nil {
		return err
	}
	ids := make([]instance.ID, len(all))
	for i, inst := range all {
		ids[i] = inst.ID
	}
	results, err := e.StopInstances(ctx, ids)
	if err != nil {
		return err
	}
	for i, err := range results {
		if err != nil {
			return errors.Annotatef(err, "cannot stop instance %s", ids[i])
		}
	}
	return nil
}
