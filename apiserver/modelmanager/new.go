package modelmanager

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*ModelManager, error) {
	return newModelManager(backend{st.Controller(), c.Schema}, c)
}

// backend adapts state to what the facade needs.
type backend struct {
	c      *state.Controller
	schema func(provider string) (config.Schema, error)
}

var _ Backend = backend{}

func (b backend) ControllerUUID() string { return b.c.ControllerUUID() }

func (b backend) Models(ctx context.Context, user string) ([]Model, error) {
	var found []*state.Model
	var err error
	if user == "" {
		found, err = b.c.Models().All(ctx)
	} else {
		found, err = b.c.Models().ForUser(ctx, user)
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	models := make([]Model, len(found))
	for i, m := range found {
		models[i] = model{m}
	}
	return models, nil
}

func (b backend) Model(ctx context.Context, uuid string) (Model, error) {
	m, err := b.c.Models().Get(ctx, uuid)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return model{m}, nil
}

func (b backend) Add(ctx context.Context, name, owner string, attrs map[string]any) (Model, error) {
	wanted := maps.Clone(attrs)
	if wanted == nil {
		wanted = make(map[string]any)
	}
	if err := b.inherit(ctx, wanted); err != nil {
		return nil, errors.Trace(err)
	}
	m, err := b.c.Models().Add(ctx, state.ModelSpec{Name: name, Owner: owner, Config: wanted})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return model{m}, nil
}

// inherit adds the provider's type, and its own settings if the type is the
// same, from the controller's model, so that a model needs no more than a name.
func (b backend) inherit(ctx context.Context, attrs map[string]any) error {
	st, err := b.c.State(ctx, b.c.ControllerModelUUID())
	if err != nil {
		return errors.Trace(err)
	}
	site, err := below.Config{State: st}.Settings(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	if attrs[config.Type] == nil {
		attrs[config.Type] = site.Type()
	}
	provider, ok := attrs[config.Type].(string)
	if !ok {
		return errors.NotValidf("provider type %v", attrs[config.Type])
	}
	schema, err := b.schema(provider)
	if errors.Is(err, errors.NotFound) {
		return errors.NotValidf("provider type %q", provider)
	}
	if err != nil || provider != site.Type() {
		return errors.Trace(err)
	}
	for name, value := range site.UnknownAttrs() {
		if _, own := schema.Field(name); own && attrs[name] == nil {
			attrs[name] = value
		}
	}
	return nil
}

// model is a *state.Model that knows its details.
type model struct{ *state.Model }

// Destroy implements Model. It heeds what is switched off in the model.
func (m model) Destroy(ctx context.Context) error {
	if err := m.State().Blocks().Check(ctx, state.BlockDestroy, state.BlockRemove, state.BlockChange); err != nil {
		return err
	}
	return m.Model.Destroy(ctx)
}

// Details implements Model.
func (m model) Details(ctx context.Context) (Details, error) {
	settings, err := below.Config{State: m.State()}.Settings(ctx)
	if err != nil {
		return Details{}, errors.Trace(err)
	}
	logins, err := m.LastLogins(ctx)
	if err != nil {
		return Details{}, errors.Trace(err)
	}
	b := settings.DefaultBase()
	if b.IsZero() {
		b = base.Default()
	}
	series, err := b.Series()
	if err != nil {
		series = base.DefaultSeries()
	}
	return Details{
		Provider: settings.Type(), DefaultSeries: series, IsController: m.State().IsControllerModel(), Logins: logins,
	}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
