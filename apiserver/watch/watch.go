// Package watch holds the facades through which a client follows its watchers:
// NotifyWatcher, StringsWatcher and AllWatcher, all version 1, and AllModelWatcher,
// version 2. The object of a request is the watcher, by the id that the call which
// made it returned.
package watch

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

// find returns the connection's watcher of that id. It returns ErrUnknownWatcher if
// there never was one or it is of another kind, and the zero T if it was
// stopped.
func find[T any](c common.Connection) (T, error) {
	r := c.Resources.Get(c.Object)
	w, ok := r.(T)
	if !ok && (r != nil || !c.Resources.Given(c.Object)) {
		return w, common.ErrUnknownWatcher
	}
	return w, nil
}

// NotifyWatcher follows a watcher whose events say nothing but that something
// changed.
type NotifyWatcher struct {
	c common.Connection
	w watcher.NotifyWatcher // nil once stopped
}

// NewNotifyWatcher returns the NotifyWatcher that c.Object names. It is for
// agents.
func NewNotifyWatcher(c common.Connection) (*NotifyWatcher, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	w, err := find[watcher.NotifyWatcher](c)
	if err != nil {
		return nil, err
	}
	return &NotifyWatcher{c, w}, nil
}

// Next returns when something has changed since the last event.
func (n *NotifyWatcher) Next(ctx context.Context) (rpc.Later[rpc.None], error) {
	if n.w == nil {
		return rpc.Later[rpc.None]{}, common.ErrStopped
	}
	return common.Later(ctx, n.w, n.w.Changes(), func(struct{}) rpc.None { return rpc.None{} }), nil
}

// Stop ends the watcher and any Next that waits.
func (n *NotifyWatcher) Stop() error { return n.c.Resources.Stop(n.c.Object) }

// StringsWatcher follows a watcher whose events name what has changed.
type StringsWatcher struct {
	c common.Connection
	w watcher.StringsWatcher // nil once stopped
}

// NewStringsWatcher returns the StringsWatcher that c.Object names. It is for
// agents.
func NewStringsWatcher(c common.Connection) (*StringsWatcher, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	w, err := find[watcher.StringsWatcher](c)
	if err != nil {
		return nil, err
	}
	return &StringsWatcher{c, w}, nil
}

// Next returns what has changed since the last event, once something has.
func (s *StringsWatcher) Next(ctx context.Context) (rpc.Later[params.StringsWatchResult], error) {
	if s.w == nil {
		return rpc.Later[params.StringsWatchResult]{}, common.ErrStopped
	}
	return common.Later(ctx, s.w, s.w.Changes(), func(changes []string) params.StringsWatchResult {
		return params.StringsWatchResult{Changes: changes}
	}), nil
}

// Stop ends the watcher and any Next that waits.
func (s *StringsWatcher) Stop() error { return s.c.Resources.Stop(s.c.Object) }

// AllWatcher follows everything in a model, or as AllModelWatcher in all models.
type AllWatcher struct {
	c common.Connection
	w common.Deltas // nil once stopped
}

// NewAllWatcher returns the AllWatcher that c.Object names. It is for people.
func NewAllWatcher(c common.Connection) (*AllWatcher, error) {
	if !common.AuthClient(c.Auth) {
		return nil, common.ErrPerm
	}
	w, err := find[common.Deltas](c)
	if err != nil {
		return nil, err
	}
	return &AllWatcher{c, w}, nil
}

// Next returns everything there is the first time, and then what has changed,
// once something has.
func (a *AllWatcher) Next(ctx context.Context) (params.AllWatcherNextResults, error) {
	if a.w == nil {
		return params.AllWatcherNextResults{}, common.ErrStopped
	}
	deltas, err := a.w.Next(ctx)
	return params.AllWatcherNextResults{Deltas: deltas}, err
}

// Stop ends the watcher and any Next that waits.
func (a *AllWatcher) Stop() error { return a.c.Resources.Stop(a.c.Object) }
