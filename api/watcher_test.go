package api_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
)

// events makes a server answer Next of a watcher facade from a channel, until
// Stop.
func events[T any](s *apitest.Server, facade string, source <-chan T) (stopped <-chan struct{}) {
	end := make(chan struct{})
	s.Handle(facade+".Next", func(ctx context.Context, _ apitest.Request) (any, error) {
		select {
		case e := <-source:
			return e, nil
		case <-end:
			return nil, kind.Stopped
		case <-ctx.Done():
			return nil, kind.Stopped
		}
	})
	s.Handle(facade+".Stop", func(_ context.Context, r apitest.Request) (any, error) {
		if r.ID != "7" {
			return nil, errors.NotFoundf("watcher %s", r.ID)
		}
		close(end)
		return nil, nil
	})
	return end
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatal("the channel is closed")
		}
		return v
	case <-time.After(time.Minute):
		t.Fatal("no event in time")
		panic("not reached")
	}
}

func ended[T any](t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case _, ok := <-c:
		if ok {
			t.Fatal("an event instead of the end")
		}
	case <-time.After(time.Minute):
		t.Fatal("the channel was not closed in time")
	}
}

func TestStringsWatcherFollowsTheServer(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apitest.Server, o api.DialOptions) {
		source := make(chan params.StringsWatchResult, 1)
		stopped := events(s, "StringsWatcher", source)
		o.CallTimeout = time.Minute
		conn := open(t, infoOf(s), o)
		w, err := api.NewStringsWatcher(conn, params.StringsWatchResult{StringsWatcherID: "7", Changes: []string{"0", "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := receive(t, w.Changes()); !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("first event = %v, want 0 and 1", got)
		}
		time.Sleep(time.Hour) // longer than other calls may take
		source <- params.StringsWatchResult{Changes: []string{"2"}}
		if got := receive(t, w.Changes()); !slices.Equal(got, []string{"2"}) {
			t.Errorf("second event = %v, want 2", got)
		}
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait = %v, want nil", err)
		}
		ended(t, w.Changes())
		within(t, "Stop", stopped)
	})
}

func TestNotifyWatcherFollowsTheServer(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	source := make(chan struct{}, 1)
	events(s, "NotifyWatcher", source)
	conn := open(t, infoOf(s), api.DialOptions{})
	w, err := api.NewNotifyWatcher(conn, params.NotifyWatchResult{NotifyWatcherID: "7"})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, w.Changes())
	source <- struct{}{}
	receive(t, w.Changes())
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
}

func TestWatchersThatAreNotReadStillEnd(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	events(s, "NotifyWatcher", make(chan struct{}))
	conn := open(t, infoOf(s), api.DialOptions{})
	w, err := api.NewNotifyWatcher(conn, params.NotifyWatchResult{NotifyWatcherID: "unknown there"})
	if err != nil {
		t.Fatal(err)
	}
	w.Kill() // and the server knows no such watcher, which is as good as stopped
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
}

func TestAWatcherEndsWithTheReason(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	s.Handle("NotifyWatcher.Next", func(context.Context, apitest.Request) (any, error) {
		return nil, errors.New("state has been closed")
	})
	conn := open(t, infoOf(s), api.DialOptions{})
	w, err := api.NewNotifyWatcher(conn, params.NotifyWatchResult{NotifyWatcherID: "7"})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, w.Changes())
	ended(t, w.Changes())
	if err := w.Wait(); err == nil || err.Error() != "state has been closed" {
		t.Errorf("Wait = %v, want the server's error", err)
	}
	w.Kill() // harmless
}

func TestAWatcherEndsWithItsConnection(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	events(s, "StringsWatcher", make(chan params.StringsWatchResult))
	conn := open(t, infoOf(s), api.DialOptions{})
	w, err := api.NewStringsWatcher(conn, params.StringsWatchResult{StringsWatcherID: "7"})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, w.Changes())
	conn.Close()
	ended(t, w.Changes())
	if err := w.Wait(); !errors.Is(err, api.ErrBroken) {
		t.Errorf("Wait = %v, want ErrBroken", err)
	}
}

func TestAWatcherThatWasRefusedIsAnError(t *testing.T) {
	refused := &params.Error{Message: "permission denied", Code: params.CodeUnauthorized}
	if _, err := api.NewNotifyWatcher(nil, params.NotifyWatchResult{Error: refused}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("NewNotifyWatcher = %v, want Unauthorized", err)
	}
	if _, err := api.NewStringsWatcher(nil, params.StringsWatchResult{Error: refused}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("NewStringsWatcher = %v, want Unauthorized", err)
	}
}
