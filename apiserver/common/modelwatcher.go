package common

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// ModelConfigs is what ModelWatcher needs from below.
type ModelConfigs interface {
	// ModelConfig returns every attribute of the model's configuration.
	ModelConfig(ctx context.Context) (map[string]any, error)
	// WatchModelConfig tells of changes of ModelConfig.
	WatchModelConfig(ctx context.Context) (watcher.NotifyWatcher, error)
}

// ModelWatcher gives a facade the methods ModelConfig and
// WatchForModelConfigChanges.
type ModelWatcher struct {
	below     ModelConfigs
	resources *Resources
}

// NewModelWatcher returns a ModelWatcher whose watchers go to resources.
func NewModelWatcher(below ModelConfigs, resources *Resources) *ModelWatcher {
	return &ModelWatcher{below, resources}
}

// ModelConfig returns every attribute of the model's configuration.
func (w *ModelWatcher) ModelConfig(ctx context.Context) (params.ModelConfigResult, error) {
	attrs, err := w.below.ModelConfig(ctx)
	if err != nil {
		return params.ModelConfigResult{}, errors.Trace(err)
	}
	return params.ModelConfigResult{Config: attrs}, nil
}

// WatchForModelConfigChanges tells of changes of the model's configuration.
func (w *ModelWatcher) WatchForModelConfigChanges(ctx context.Context) (params.NotifyWatchResult, error) {
	config, err := w.below.WatchModelConfig(ctx)
	if err != nil {
		return params.NotifyWatchResult{}, errors.Trace(err)
	}
	return RegisterNotify(ctx, w.resources, config)
}
