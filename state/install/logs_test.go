package install_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/install"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

// marked is in the context of the call that a test comes between.
type marked struct{}

// No log is left of a host whose orders are cancelled while its installer logs, whichever of
// the two comes between the other's reads and writes.
func TestNoLogIsLeftOfWhatIsCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		lines  int // that were logged before
		cancel bool
	}{
		"cancelled between, without a log": {0, false},
		"cancelled between, with a log":    {1, false},
		"logged between, without a log":    {0, true},
		"logged between, with a log":       {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			tap := storetest.NewTap(storetest.New(t, state.Collections()))
			now := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
			site := statetest.OpenWith(t, statetest.Config{Store: tap, Options: state.Options{HostKeys: hostkey.New(), Now: now.Now}})
			is := install.New(site.SiteDocs())
			start(t, is, order())
			s := session(t, is, boot(t, is, one(t, is).Medium))
			for range c.lines {
				if err := s.AddLog(ctx, []string{"before"}); err != nil {
					t.Fatal(err)
				}
			}
			add := func(ctx context.Context) error { return s.AddLog(ctx, []string{"between"}) }
			cancel := func(ctx context.Context) error { return is.Cancel(ctx, uid) }
			call, other := add, cancel
			if c.cancel {
				call, other = cancel, add
			}
			var writes atomic.Int32
			tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
				if ctx.Value(marked{}) == nil || c.Method != "Apply" || writes.Add(1) > 1 {
					return nil
				}
				return other(context.Background())
			})
			err := call(context.WithValue(ctx, marked{}, true))
			tap.SetBefore(nil)
			switch {
			case c.cancel && err != nil:
				t.Errorf("Cancel = %v", err)
			case !c.cancel && !errors.Is(err, install.ErrOver):
				t.Errorf("AddLog = %v, want that the boot is over", err)
			}
			for _, collection := range []string{state.InstallsCollection, state.InstallLogCollection} {
				if page, err := tap.List(ctx, store.Query{Collection: collection}); err != nil || len(page.Docs) != 0 {
					t.Errorf("%d documents are left in %s, %v", len(page.Docs), collection, err)
				}
			}
			if writes.Load() == 0 {
				t.Error("nothing came between")
			}
		})
	}
}
