package common

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// RegisterNotify consumes a watcher's first event, which tells nothing, and
// keeps the watcher for the NotifyWatcher facade. If that fails the watcher has
// been stopped.
func RegisterNotify(ctx context.Context, r *Resources, w watcher.NotifyWatcher) (params.NotifyWatchResult, error) {
	_, err := Next(ctx, w, w.Changes())
	if err == nil {
		err = r.Room()
	}
	if err != nil {
		w.Kill()
		return params.NotifyWatchResult{}, errors.Trace(err)
	}
	return params.NotifyWatchResult{NotifyWatcherID: r.Register(w)}, nil
}

// RegisterStrings returns a watcher's first event, which names all there is,
// and keeps the watcher for the StringsWatcher facade. If that fails the watcher
// has been stopped.
func RegisterStrings(ctx context.Context, r *Resources, w watcher.StringsWatcher) (params.StringsWatchResult, error) {
	changes, err := Next(ctx, w, w.Changes())
	if err == nil {
		err = r.Room()
	}
	if err != nil {
		w.Kill()
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return params.StringsWatchResult{StringsWatcherID: r.Register(w), Changes: changes}, nil
}

// Next waits for an event of w on changes. It returns ErrStopped when the
// watcher was stopped or ctx is done, and the watcher's own error when it failed.
func Next[T any](ctx context.Context, w watcher.Watcher, changes <-chan T) (T, error) {
	var none T
	select {
	case <-ctx.Done():
		return none, ErrStopped
	case event, ok := <-changes:
		if ok {
			return event, nil
		}
		if err := w.Wait(); err != nil {
			return none, err
		}
		return none, ErrStopped
	}
}
