package api

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

var (
	_ watcher.NotifyWatcher  = (*Stream[struct{}])(nil)
	_ watcher.StringsWatcher = (*Stream[[]string])(nil)
)

// stopTimeout bounds the goodbye to a watcher on the server.
const stopTimeout = 10 * time.Second

// StreamConfig describes a watcher on the server.
type StreamConfig[T any] struct {
	Caller  Caller
	Facade  string // NotifyWatcher and so on
	Version int
	ID      string
	Initial *T // the first event, if the call that made the watcher consumed it; else nil

	// Next decodes one event out of a call of Next, which call makes.
	Next func(call func(result any) error) (T, error)
}

// Stream turns a watcher on the server into a channel. An event that has not
// been read keeps the next one from being asked for, so that changes gather on
// the server, where they are merged.
type Stream[T any] struct {
	tomb tomb.Tomb
	out  chan T
	cfg  StreamConfig[T]
}

// NewStream starts to follow a watcher on the server.
func NewStream[T any](cfg StreamConfig[T]) *Stream[T] {
	s := &Stream[T]{out: make(chan T), cfg: cfg}
	s.tomb.Go(s.loop)
	return s
}

// NewNotifyWatcher follows the NotifyWatcher that a call returned.
func NewNotifyWatcher(c Caller, r params.NotifyWatchResult) (watcher.NotifyWatcher, error) {
	if r.Error != nil {
		return nil, r.Error
	}
	return NewStream(StreamConfig[struct{}]{
		Caller: c, Facade: "NotifyWatcher", Version: 1, ID: r.NotifyWatcherID, Initial: &struct{}{},
		Next: func(call func(any) error) (struct{}, error) { return struct{}{}, call(nil) },
	}), nil
}

// NewStringsWatcher follows the StringsWatcher that a call returned.
func NewStringsWatcher(c Caller, r params.StringsWatchResult) (watcher.StringsWatcher, error) {
	if r.Error != nil {
		return nil, r.Error
	}
	return NewStream(StreamConfig[[]string]{
		Caller: c, Facade: "StringsWatcher", Version: 1, ID: r.StringsWatcherID, Initial: &r.Changes,
		Next: func(call func(any) error) ([]string, error) {
			var result params.StringsWatchResult
			err := call(&result)
			return result.Changes, err
		},
	}), nil
}

// WatchNotify calls a method without parameters that returns a NotifyWatcher,
// and follows that.
func WatchNotify(ctx context.Context, c Caller, r rpc.Request) (watcher.NotifyWatcher, error) {
	var result params.NotifyWatchResult
	if err := c.Call(ctx, r, nil, &result); err != nil {
		return nil, errors.Trace(err)
	}
	return NewNotifyWatcher(c, result)
}

// WatchStrings calls a method without parameters that returns a StringsWatcher,
// and follows that.
func WatchStrings(ctx context.Context, c Caller, r rpc.Request) (watcher.StringsWatcher, error) {
	var result params.StringsWatchResult
	if err := c.Call(ctx, r, nil, &result); err != nil {
		return nil, errors.Trace(err)
	}
	return NewStringsWatcher(c, result)
}

// Changes returns the channel of events. It is closed when the stream has ended.
func (s *Stream[T]) Changes() <-chan T { return s.out }

// Kill asks the stream to end.
func (s *Stream[T]) Kill() { s.tomb.Kill(nil) }

// Wait returns when the stream has ended: nil after Kill, else the reason.
func (s *Stream[T]) Wait() error { return s.tomb.Wait() }

func (s *Stream[T]) loop() error {
	defer s.stop()
	defer close(s.out)
	ctx := s.tomb.Context(nil)
	next := s.cfg.Initial
	for {
		if next == nil {
			event, err := s.cfg.Next(func(result any) error { return s.call(ctx, "Next", result) })
			if !s.tomb.Alive() {
				return tomb.ErrDying // whatever the call said
			}
			if err != nil {
				return errors.Trace(err)
			}
			next = &event
		}
		select {
		case <-s.tomb.Dying():
			return tomb.ErrDying
		case s.out <- *next:
			next = nil
		}
	}
}

// stop takes leave of the watcher on the server. Nothing hangs on it: the
// watcher ends with the connection at the latest.
func (s *Stream[T]) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.call(ctx, "Stop", nil)
	if err != nil && !errors.Is(err, kind.Stopped) && !errors.Is(err, errors.NotFound) && !errors.Is(err, ErrBroken) {
		logger.Debugf("cannot stop %s %s: %v", s.cfg.Facade, s.cfg.ID, err)
	}
}

func (s *Stream[T]) call(ctx context.Context, method string, result any) error {
	return s.cfg.Caller.Call(ctx, rpc.Request{Type: s.cfg.Facade, Version: s.cfg.Version, ID: s.cfg.ID, Method: method}, nil, result)
}
