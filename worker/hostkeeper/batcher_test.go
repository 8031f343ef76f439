package hostkeeper_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/worker/hostkeeper"
)

// slow is a controller whose Intend takes a second.
type slow struct {
	fake
	mu    sync.Mutex
	calls [][]string
}

func (s *slow) Intend(ctx context.Context, intents ...params.HostIntent) ([]error, error) {
	var names []string
	results := make([]error, len(intents))
	for i, one := range intents {
		names = append(names, one.Name)
		if one.Name == "gone" {
			results[i] = errors.NotFoundf("host %q", one.Name)
		}
	}
	slices.Sort(names)
	s.mu.Lock()
	s.calls = append(s.calls, names)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return results, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestWhatIsReadyGoesWithOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(slow)
		s, began := hostkeeper.NewStore(c), time.Now()
		outcomes := make(chan error, 2500)
		intend := func(name string) { outcomes <- s.Intend(t.Context(), name, time.Now().Add(time.Hour)) }
		go intend("first")
		synctest.Wait()
		for i := range 2499 {
			name := fmt.Sprint("host-", i)
			if i == 700 {
				name = "gone"
			}
			go intend(name)
		}
		missing := 0
		for range 2500 {
			if err := <-outcomes; errors.Is(err, errors.NotFound) {
				missing++
			} else if err != nil {
				t.Error(err)
			}
		}
		var sizes []int
		for _, names := range c.calls {
			sizes = append(sizes, len(names))
		}
		if !slices.Equal(sizes, []int{1, 1000, 1000, 499}) || missing != 1 || time.Since(began) != 4*time.Second {
			t.Errorf("calls of %d hosts, %d missing, after %v", sizes, missing, time.Since(began))
		}
	})
}

func TestAFailureOfACallIsThatOfAllInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(slow)
		c.err = errors.New("no more disk")
		s, outcomes := hostkeeper.NewStore(c), make(chan error, 3)
		for _, name := range []string{"a", "b", "c"} {
			go func() { outcomes <- s.Intend(t.Context(), name, time.Now().Add(time.Hour)) }()
			synctest.Wait()
		}
		for range 3 {
			if err := <-outcomes; err == nil || err.Error() != "no more disk" {
				t.Errorf("Intend = %v", err)
			}
		}
		if len(c.calls) != 2 {
			t.Errorf("calls %q", c.calls)
		}
	})
}

// TestWhoGivesUpHoldsUpNobody has those give up that make the call, that wait for it and
// that are in it, at once.
func TestWhoGivesUpHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(slow)
		s := hostkeeper.NewStore(c)
		var running sync.WaitGroup
		results := map[string]error{}
		var mu sync.Mutex
		intend := func(ctx context.Context, name string) {
			running.Go(func() {
				err := s.Intend(ctx, name, time.Now().Add(time.Hour))
				mu.Lock()
				defer mu.Unlock()
				results[name] = err
			})
			synctest.Wait()
		}
		stopped, stop := context.WithCancel(t.Context())
		intend(t.Context(), "first")
		intend(stopped, "second") // makes the call after the first
		intend(t.Context(), "third")
		intend(stopped, "fourth")
		<-time.After(1500 * time.Millisecond) // of the bubble: the second call is under way
		intend(stopped, "fifth")
		intend(t.Context(), "sixth")
		stop()
		running.Wait()
		for name, want := range map[string]error{
			"first": nil, "second": context.Canceled, "third": nil, "fourth": context.Canceled, "fifth": context.Canceled, "sixth": nil,
		} {
			if err := results[name]; !errors.Is(err, want) {
				t.Errorf("%s = %v, want %v", name, err, want)
			}
		}
		if got := fmt.Sprint(c.calls[:2]); got != "[[first] [fourth second third]]" {
			t.Errorf("calls %s", got)
		}
		if err := s.Intend(t.Context(), "last", time.Now().Add(time.Hour)); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}
