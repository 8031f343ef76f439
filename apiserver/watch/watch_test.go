package watch_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/watch"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// events is a watcher whose events a test sends.
type events[T any] struct {
	changes chan T
	once    sync.Once
	err     error
}

func newEvents[T any]() *events[T] { return &events[T]{changes: make(chan T, 10)} }

func (e *events[T]) Changes() <-chan T { return e.changes }
func (e *events[T]) Kill()             { e.once.Do(func() { close(e.changes) }) }
func (e *events[T]) Wait() error       { return e.err }

// deltas is events as a stream of entities.
type deltas struct{ *events[[]params.Delta] }

func (d deltas) Next(ctx context.Context) ([]params.Delta, error) {
	return common.Next(ctx, d, d.changes)
}

func text(err error) string { return facadetest.Text(params.ErrorOf(err)) }

const (
	unknown = "unknown watcher id [not found]"
	stopped = "watcher has been stopped [stopped]"
)

// opened is a facade, whichever it is.
type opened struct {
	next func(ctx context.Context) error
	stop func() error
}

// next returns a function that waits for what a call promises.
func next[R any](call func(context.Context) (rpc.Later[R], error)) func(context.Context) error {
	return func(ctx context.Context) error {
		later, err := call(ctx)
		if err != nil {
			return err
		}
		_, err = facadetest.Await(later)
		return err
	}
}

func open(c common.Connection, facade string) (opened, error) {
	switch facade {
	case "NotifyWatcher":
		w, err := watch.NewNotifyWatcher(c)
		if err != nil {
			return opened{}, err
		}
		return opened{next(w.Next), w.Stop}, nil
	case "StringsWatcher":
		w, err := watch.NewStringsWatcher(c)
		if err != nil {
			return opened{}, err
		}
		return opened{next(w.Next), w.Stop}, nil
	}
	w, err := watch.NewAllWatcher(c)
	if err != nil {
		return opened{}, err
	}
	return opened{func(ctx context.Context) error { _, err := w.Next(ctx); return err }, w.Stop}, nil
}

func TestWatcherFacades(t *testing.T) {
	agent, person := facadetest.Agent("machine-0"), facadetest.Reader
	tests := []struct {
		facade  string
		who     facadetest.Caller
		refused facadetest.Caller
		id      string // of a watcher of its kind
		others  []string
	}{
		{"NotifyWatcher", agent, person, "1", []string{"2", "3"}},
		{"StringsWatcher", agent, person, "2", []string{"1", "3"}},
		{"AllWatcher", person, agent, "3", []string{"1", "2"}},
	}
	for _, test := range tests {
		t.Run(test.facade, func(t *testing.T) {
			notify, strings, all := newEvents[struct{}](), newEvents[[]string](), deltas{newEvents[[]params.Delta]()}
			c := facadetest.Connect(t, test.who)
			for _, r := range []common.Resource{notify, strings, all} {
				c.Resources.Register(r)
			}
			c.Object = test.id
			denied := c
			denied.Auth = test.refused
			if _, err := open(denied, test.facade); !errors.Is(err, errors.Unauthorized) {
				t.Errorf("for %s: %v, want it denied", test.refused.Tag, err)
			}
			for _, id := range append(test.others, "99", "", "x") {
				other := c
				other.Object = id
				if _, err := open(other, test.facade); text(err) != unknown {
					t.Errorf("id %q: %v, want it unknown", id, err)
				}
			}
			w, err := open(c, test.facade)
			if err != nil {
				t.Fatal(err)
			}
			notify.changes <- struct{}{}
			strings.changes <- []string{"a"}
			all.changes <- []params.Delta{}
			if err := w.next(t.Context()); err != nil {
				t.Errorf("Next with an event = %v", err)
			}
			waiting := make(chan error, 1)
			go func() { waiting <- w.next(context.Background()) }()
			for range 2 {
				if err := w.stop(); err != nil {
					t.Errorf("Stop = %v", err)
				}
			}
			select {
			case err := <-waiting:
				if text(err) != stopped {
					t.Errorf("Next that waited = %v, want stopped", err)
				}
			case <-time.After(time.Minute):
				t.Error("Next waits on after Stop")
			}
			again, err := open(c, test.facade)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.next(t.Context()); text(err) != stopped {
				t.Errorf("Next after Stop = %v, want stopped", err)
			}
		})
	}
}
