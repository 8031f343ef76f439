package state

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// configID is the local id of a model's configuration.
const configID = "config"

// configDoc is a model's configuration as it is stored: what somebody set.
// Defaults are not stored.
type configDoc struct {
	Attrs map[string]any `json:"attrs"`
}

// ModelConfig is the handle on a model's configuration.
type ModelConfig struct{ st *State }

// Get returns the configuration. It returns an error satisfying errors.NotFound
// once the model has been removed.
func (mc *ModelConfig) Get(ctx context.Context) (*config.Config, error) {
	cfg, _, err := mc.read(ctx)
	return cfg, errors.Annotate(err, "cannot get model config")
}

// Update changes the configuration as config.Config.Update says. A change that
// leaves everything as it was wakes no watcher.
func (mc *ModelConfig) Update(ctx context.Context, u config.Update) error {
	return mc.change(ctx, func(c *config.Config) (*config.Config, error) { return c.Update(u) })
}

// SetAgentVersion sets the version that the model's agents are to run, which
// Update refuses to do. Those that are newer stay as they are.
func (mc *ModelConfig) SetAgentVersion(ctx context.Context, version string) error {
	return mc.change(ctx, func(c *config.Config) (*config.Config, error) {
		c, err := c.Remove([]string{config.AgentDowngrade})
		if err != nil {
			return nil, err
		}
		return c.Apply(map[string]any{config.AgentVersion: version})
	})
}

// ForceAgentVersion is SetAgentVersion, but those that are newer go back.
func (mc *ModelConfig) ForceAgentVersion(ctx context.Context, version string) error {
	return mc.change(ctx, func(c *config.Config) (*config.Config, error) {
		return c.Apply(map[string]any{config.AgentVersion: version, config.AgentDowngrade: true})
	})
}

func (mc *ModelConfig) change(ctx context.Context, change func(*config.Config) (*config.Config, error)) error {
	key := mc.st.key(configsC, configID)
	err := mc.st.run(ctx, func(int) ([]store.Op, error) {
		old, was, err := mc.read(ctx)
		if err != nil {
			return nil, err
		}
		cfg, err := change(old)
		if err == nil && mc.st.c.policy != nil {
			cfg, err = mc.st.c.policy.CheckConfig(cfg, old)
		}
		if err != nil {
			return nil, err
		}
		op, err := writeOp(key, was.Rev, configDoc{Attrs: cfg.SetAttrs()}, nil)
		if err != nil || string(op.Data) == string(was.Data) {
			return nil, err
		}
		return []store.Op{op}, nil
	})
	return errors.Annotate(err, "cannot update model config")
}

func (mc *ModelConfig) read(ctx context.Context) (*config.Config, store.Doc, error) {
	d, err := mc.st.c.store.Get(ctx, mc.st.key(configsC, configID))
	if errors.Is(err, errors.NotFound) {
		return nil, store.Doc{}, noModel(mc.st.modelUUID)
	}
	if err != nil {
		return nil, store.Doc{}, errors.Trace(err)
	}
	doc, err := decode[configDoc](d)
	if err != nil {
		return nil, store.Doc{}, errors.Trace(err)
	}
	cfg, err := config.New(doc.Attrs)
	return cfg, d, errors.Trace(err)
}

// Watch returns a watcher of the configuration.
func (mc *ModelConfig) Watch() watcher.NotifyWatcher {
	return mc.st.c.hub.watchKey(mc.st.key(configsC, configID))
}
