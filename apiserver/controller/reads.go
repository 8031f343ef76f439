package controller

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Reads is what the facade needs from below beside its Backend.
type Reads interface {
	Models
	Followed
	Settings
	// Access returns what a user may do with the site, or an error satisfying
	// errors.NotFound.
	Access(ctx context.Context, user string) (access.Controller, error)
}

// Models are the models of the site.
type Models interface {
	All(ctx context.Context) ([]Model, error)
	// Model returns a model, or an error satisfying errors.NotFound.
	Model(ctx context.Context, uuid string) (Model, error)
	// ControllerModelConfig returns the settings of the controller's own model.
	ControllerModelConfig(ctx context.Context) (*config.Config, error)
}

// Followed are the models in their course.
type Followed interface {
	// WatchModels tells by UUID which models come, change and go.
	WatchModels(ctx context.Context) (watcher.StringsWatcher, error)
	// Follow returns what tells everything in a model, or an error satisfying
	// errors.NotFound.
	Follow(ctx context.Context, uuid string) (common.Deltas, error)
	// Blocked returns the models in which operations are switched off.
	Blocked(ctx context.Context) ([]Blocked, error)
	// Unblock switches every operation on again in a model.
	Unblock(ctx context.Context, uuid string) error
}

// Blocked is a model in which operations are switched off.
type Blocked struct {
	Model
	Kinds []string // of operations, sorted
}

// Settings are the settings of the site.
type Settings interface {
	ControllerConfig(ctx context.Context) (map[string]any, error)
	UpdateControllerConfig(ctx context.Context, set map[string]any, remove []string) error
}

// Model is a model of the site.
type Model interface {
	UUID() string
	Name() string
	Owner() string
	Life() life.Value
	Machines(ctx context.Context) (int, error)
}

// V3 is version 3 of the facade.
type V3 struct {
	*Controller
	reads Reads
	conn  common.Connection
}

// V5 is V3 with ConfigSet.
type V5 struct{ *V3 }

// AllModels returns every model, for superusers.
func (c *V3) AllModels(ctx context.Context) (params.UserModelList, error) {
	if err := c.superuser(); err != nil {
		return params.UserModelList{}, err
	}
	models, err := c.reads.All(ctx)
	if err != nil {
		return params.UserModelList{}, errors.Trace(err)
	}
	list := params.UserModelList{UserModels: make([]params.UserModel, len(models))}
	for i, m := range models {
		list.UserModels[i].Model = params.Model{Name: m.Name(), UUID: m.UUID(), OwnerTag: tag.UserKind + "-" + m.Owner()}
	}
	return list, nil
}

// ModelStatus says what is in models, for superusers. It fails as a whole if one of
// them is missing.
func (c *V3) ModelStatus(ctx context.Context, args params.Entities) (params.ModelStatusResults, error) {
	if err := c.superuser(); err != nil {
		return params.ModelStatusResults{}, err
	}
	results := make([]params.ModelStatus, len(args.Entities))
	for i, e := range args.Entities {
		t, err := tag.ParseModelTag(e.Tag)
		if err != nil {
			return params.ModelStatusResults{}, err
		}
		m, err := c.reads.Model(ctx, t.Id())
		if err != nil {
			return params.ModelStatusResults{}, errors.Trace(err)
		}
		n, err := m.Machines(ctx)
		if err != nil {
			return params.ModelStatusResults{}, errors.Trace(err)
		}
		results[i] = params.ModelStatus{
			ModelTag: t.String(), Life: string(m.Life()), HostedMachineCount: n, OwnerTag: tag.UserKind + "-" + m.Owner(),
		}
	}
	return params.ModelStatusResults{Results: results}, nil
}

// ModelConfig returns the settings of the controller's own model, for superusers:
// but for secrets, people's keys, and what no table knows.
func (c *V3) ModelConfig(ctx context.Context) (params.ModelConfigResults, error) {
	if err := c.superuser(); err != nil {
		return params.ModelConfigResults{}, err
	}
	settings, err := c.reads.ControllerModelConfig(ctx)
	if err != nil {
		return params.ModelConfigResults{}, errors.Trace(err)
	}
	provider, err := c.conn.Schema(settings.Type())
	if err != nil && !errors.Is(err, errors.NotFound) {
		return params.ModelConfigResults{}, errors.Trace(err)
	}
	fields := config.Schema(append(slices.Clone(config.Fields()), provider...))
	all := make(map[string]params.ConfigValue)
	for name, value := range settings.AllAttrs() {
		if f, known := fields.Field(name); known && !f.Secret && name != config.AuthorizedKeys {
			all[name] = params.ConfigValue{Value: value, Source: "controller"}
		}
	}
	return params.ModelConfigResults{Config: all}, nil
}

// ControllerConfig returns the settings of the site.
func (c *V3) ControllerConfig(ctx context.Context) (params.ModelConfigResult, error) {
	attrs, err := c.reads.ControllerConfig(ctx)
	return params.ModelConfigResult{Config: attrs}, errors.Trace(err)
}

// GetControllerAccess says what users may do with the site. People other than
// superusers may ask for themselves alone.
func (c *V3) GetControllerAccess(ctx context.Context, args params.Entities) (params.UserAccessResults, error) {
	results := make([]params.UserAccessResult, len(args.Entities))
	for i, e := range args.Entities {
		a, err := c.access(ctx, e.Tag)
		if err != nil {
			results[i].Error = common.ServerError(err)
			continue
		}
		results[i].Result = &params.UserAccess{UserTag: e.Tag, Access: string(a)}
	}
	return params.UserAccessResults{Results: results}, nil
}

func (c *V3) access(ctx context.Context, text string) (access.Controller, error) {
	t, err := tag.ParseUserTag(text)
	if err != nil {
		return "", err
	}
	if c.superuser() != nil && !common.AuthOwner(c.auth, t) {
		return "", common.ErrPerm
	}
	return c.reads.Access(ctx, t.Id())
}

// features is the setting that lists what is switched on, and known are the
// features that there are.
const features = "features"

func known() []string { return []string{"address-allocation"} }

// ConfigSet changes settings of the site, for superusers. Of these, people may
// change features alone.
func (c *V5) ConfigSet(ctx context.Context, args params.ControllerConfigSet) error {
	if err := c.superuser(); err != nil {
		return err
	}
	for name, value := range args.Config {
		if name != features {
			return errors.NotValidf("setting %q (people can set %s)", name, features)
		}
		list, ok := value.([]any)
		if !ok {
			return errors.NotValidf("setting %s: %v is no list of names:", features, value)
		}
		for _, f := range list {
			if text, ok := f.(string); !ok || !slices.Contains(known(), text) {
				return errors.NotValidf("feature %q (known: %q)", f, known())
			}
		}
	}
	return errors.Trace(c.reads.UpdateControllerConfig(ctx, args.Config, nil))
}
