package common

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
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
		return none, whyEnded(w)
	}
}

// whyEnded returns the error of a watcher whose channel is closed.
func whyEnded(w watcher.Watcher) error {
	if err := w.Wait(); err != nil {
		return err
	}
	return ErrStopped
}

// Later is Next for a client that waits, which is told as what result makes of the
// event. It takes a goroutine only if w is no watcher.Waker.
func Later[T, R any](ctx context.Context, w watcher.Watcher, changes <-chan T, result func(T) R) rpc.Later[R] {
	return rpc.Later[R]{Pending: &next[T, R]{ctx: ctx, w: w, changes: changes, result: result}}
}

// next is the next event of a watcher.
type next[T, R any] struct {
	ctx     context.Context // of the call
	w       watcher.Watcher
	changes <-chan T
	result  func(T) R

	got   bool // by a goroutine that waited
	event T
	err   error
}

var _ rpc.Pending = (*next[struct{}, rpc.None])(nil)

// Poll implements rpc.Pending.
func (n *next[T, R]) Poll() (any, bool, error) {
	if n.got {
		return n.result(n.event), true, n.err
	}
	select {
	case event, ok := <-n.changes:
		if !ok {
			return nil, true, whyEnded(n.w)
		}
		return n.result(event), true, nil
	default:
		return nil, false, nil
	}
}

// Ready implements rpc.Pending.
func (n *next[T, R]) Ready(wake func()) {
	if waker, ok := n.w.(watcher.Waker); ok {
		waker.WhenReady(wake)
		return
	}
	go func() { // ends with the watcher, and so with its connection
		n.event, n.err = Next(n.ctx, n.w, n.changes)
		n.got = true
		wake()
	}()
}
