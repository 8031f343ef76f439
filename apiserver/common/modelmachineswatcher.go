package common

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// ModelMachinesWatcher gives a facade the method WatchModelMachines.
type ModelMachinesWatcher struct {
	watch     func(ctx context.Context) (watcher.StringsWatcher, error)
	resources *Resources
	auth      Authorizer
}

// NewModelMachinesWatcher returns a ModelMachinesWatcher whose watchers, made
// by watch, go to resources.
func NewModelMachinesWatcher(watch func(ctx context.Context) (watcher.StringsWatcher, error), resources *Resources, auth Authorizer) *ModelMachinesWatcher {
	return &ModelMachinesWatcher{watch, resources, auth}
}

// WatchModelMachines tells of the coming, the changes of life and the going of
// the model's top-level machines. It is for managers only.
func (m *ModelMachinesWatcher) WatchModelMachines(ctx context.Context) (params.StringsWatchResult, error) {
	if !m.auth.AuthModelManager() {
		return params.StringsWatchResult{}, ErrPerm
	}
	w, err := m.watch(ctx)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return RegisterStrings(ctx, m.resources, w)
}
