// Package modelconfig is the facade ModelConfig, version 1: the settings of a
// model, for people who may change it.
package modelconfig

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	Settings(ctx context.Context) (*config.Config, error)
	Update(ctx context.Context, u config.Update) error
}

// ModelConfig is the facade of one connection.
type ModelConfig struct {
	backend Backend
	schema  func(provider string) (config.Schema, error)
}

// newModelConfig returns the facade, or ErrPerm if the caller may not change
// the model.
func newModelConfig(backend Backend, c common.Connection) (*ModelConfig, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Write) {
		return nil, common.ErrPerm
	}
	return &ModelConfig{backend, c.Schema}, nil
}

// Where a setting comes from.
const (
	fromDefault = "default"
	fromModel   = "model"
)

// ModelGet returns every setting and where it comes from, but for secrets,
// people's keys, and what no table knows, which may be a secret too.
func (m *ModelConfig) ModelGet(ctx context.Context) (params.ModelConfigResults, error) {
	settings, err := m.backend.Settings(ctx)
	if err != nil {
		return params.ModelConfigResults{}, errors.Trace(err)
	}
	fields, err := m.fields(settings)
	if err != nil {
		return params.ModelConfigResults{}, errors.Trace(err)
	}
	set := settings.SetAttrs()
	all := make(map[string]params.ConfigValue)
	for name, value := range settings.AllAttrs() {
		f, known := fields.Field(name)
		if name == config.AuthorizedKeys || f.Secret || !known {
			continue
		}
		source := fromDefault
		if _, ok := set[name]; ok {
			source = fromModel
		}
		all[name] = params.ConfigValue{Value: value, Source: source}
	}
	return params.ModelConfigResults{Config: all}, nil
}

// fields returns all settings that the model may have.
func (m *ModelConfig) fields(settings *config.Config) (config.Schema, error) {
	provider, err := m.schema(settings.Type())
	if err != nil && !errors.Is(err, errors.NotFound) {
		return nil, errors.Trace(err)
	}
	return append(slices.Clone(config.Fields()), provider...), nil
}

// ModelSet changes settings.
func (m *ModelConfig) ModelSet(ctx context.Context, args params.ModelSet) error {
	return m.update(ctx, config.Update{Set: args.Config})
}

// ModelUnset gives settings their defaults back.
func (m *ModelConfig) ModelUnset(ctx context.Context, args params.ModelUnset) error {
	return m.update(ctx, config.Update{Reset: args.Keys})
}

func (m *ModelConfig) update(ctx context.Context, u config.Update) error {
	settings, err := m.backend.Settings(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	if u.Provider, err = m.schema(settings.Type()); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(m.backend.Update(ctx, u))
}
