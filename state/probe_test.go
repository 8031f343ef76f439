package state_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

// failing returns a site whose store calls fail instead of applying anything
// while the switch is on.
func failing(t *testing.T, fail func(context.Context) error) (*atomic.Bool, *statetest.Site) {
	var on atomic.Bool
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
		if c.Method == "Apply" && on.Load() {
			return fail(ctx)
		}
		return nil
	})
	return &on, statetest.OpenWith(t, statetest.Config{Store: tap})
}

func TestProbe(t *testing.T) {
	full, site := failing(t, func(context.Context) error { return errors.New("disk full") })
	before := site.Watchers()
	for range 2 {
		p, err := site.Probe(t.Context())
		if err != nil || p.Notice < p.Read || p.Write <= 0 {
			t.Errorf("Probe = %+v, %v", p, err)
		}
	}
	if n := site.Watchers(); n != before {
		t.Errorf("%d watchers after probes, want %d as before", n, before)
	}
	full.Store(true)
	if _, err := site.Probe(t.Context()); err == nil || errors.Is(err, state.ErrUnnoticed) {
		t.Errorf("Probe of a store that cannot write = %v, want its failure", err)
	}
	full.Store(false)
	if err := site.Controller.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Probe(t.Context()); !errors.Is(err, state.ErrUnnoticed) {
		t.Errorf("Probe without news = %v, want ErrUnnoticed", err)
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	hangs, site := failing(t, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	hangs.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := site.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Probe of a store that hangs = %v, want the end of its time", err)
	}
}

func TestWatchersAreCounted(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	before := site.Watchers()
	m, err := site.Default.Machines().Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := site.Users().Watch()
	if n := site.Watchers(); n != before+2 {
		t.Errorf("%d watchers, want %d", n, before+2)
	}
	m.Kill()
	u.Kill()
	u.Kill()
	if n := site.Watchers(); n != before {
		t.Errorf("%d watchers after the end of all, want %d", n, before)
	}
}
