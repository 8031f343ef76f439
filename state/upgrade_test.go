package state_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
)

var (
	controllerKey = store.Key{Collection: "site", ID: "_:controller"}
	oldPortsKey   = store.Key{Collection: "site", ID: "_:api-host-ports"}
)

// put writes a document over what is there.
func put(t *testing.T, s store.Store, key store.Key, data string) {
	t.Helper()
	docs, err := s.GetAll(ctx, []store.Key{key})
	must(t, err)
	op := store.Insert(key, []byte(data), nil)
	if docs[0].Rev != 0 {
		op = store.Replace(key, docs[0].Rev, []byte(data), nil)
	}
	must(t, s.Apply(ctx, []store.Op{op}))
}

// older returns a site whose state says that it has another format.
func older(t *testing.T, format string) *statetest.Site {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	d, err := site.Store.Get(ctx, controllerKey)
	must(t, err)
	put(t, site.Store, controllerKey, strings.Replace(string(d.Data), `"format":2`, `"format":`+format, 1))
	return site
}

func TestUpgradeSplitsTheAddresses(t *testing.T) {
	site := older(t, "1")
	put(t, site.Store, oldPortsKey, `{"servers":[[{"value":"10.0.0.1","type":"ipv4","scope":"local-cloud","port":17070}],[{"value":"10.0.0.2","type":"ipv4","scope":"local-cloud","port":17070}]]}`)
	if _, err := state.Open(ctx, site.Store, state.Options{}); !errors.Is(err, state.ErrOldFormat) {
		t.Errorf("Open of format 1 = %v, want that it is old", err)
	}
	if found, current, err := state.FormatOf(ctx, site.Store); found != 1 || current != 2 || err != nil {
		t.Errorf("FormatOf = %d, %d, %v", found, current, err)
	}
	must(t, state.Upgrade(ctx, site.Store))
	must(t, state.Upgrade(ctx, site.Store)) // there is nothing left to do
	wantPublished(t, site, "10.0.0.1", "10.0.0.2")
	if _, err := site.Store.Get(ctx, oldPortsKey); !errors.Is(err, errors.NotFound) {
		t.Errorf("the old document is still there: %v", err)
	}
	c, err := state.Open(ctx, site.Store, state.Options{})
	must(t, err)
	must(t, c.Close())
}

func TestUpgradeWithoutAddresses(t *testing.T) {
	site := older(t, "1")
	must(t, state.Upgrade(ctx, site.Store))
	wantPublished(t, site)
}

func TestUpgradeIsWholeOrNotDone(t *testing.T) {
	site := older(t, "1")
	put(t, site.Store, oldPortsKey, `{"servers":[[{"value":"10.0.0.1","port":1}]]}`)
	key := store.Key{Collection: "site", ID: "_:new"}
	step := state.Step{To: 3, Build: func(context.Context, store.Store) ([]store.Op, error) {
		return []store.Op{store.Insert(key, []byte("{}"), nil)}, nil
	}}
	failing := state.Step{To: 4, Build: func(context.Context, store.Store) ([]store.Op, error) { return nil, errors.New("no room") }}
	err := state.UpgradeWith(ctx, site.Store, step, failing)
	if err == nil || !strings.Contains(err.Error(), "cannot upgrade state to format 4 (a test's): no room") {
		t.Errorf("UpgradeWith = %v", err)
	}
	if found, _, err := state.FormatOf(ctx, site.Store); found != 3 || err != nil {
		t.Errorf("the format is %d, %v, want that of the last step that was whole", found, err)
	}
	if _, err := site.Store.Get(ctx, key); err != nil {
		t.Errorf("what the step to 3 wrote: %v", err)
	}
}

func TestUpgradesThatRaceAreDoneOnce(t *testing.T) {
	site := older(t, "1")
	put(t, site.Store, oldPortsKey, `{"servers":[[{"value":"10.0.0.1","port":1}]]}`)
	done := make(chan error, 4)
	for range cap(done) {
		go func() { done <- state.Upgrade(ctx, site.Store) }()
	}
	for range cap(done) {
		must(t, <-done)
	}
	wantPublished(t, site, "10.0.0.1")
}

func TestUpgradeRefuses(t *testing.T) {
	if err := state.Upgrade(ctx, older(t, "0").Store); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Upgrade from format 0 = %v, want not supported", err)
	}
	newer := older(t, "3")
	must(t, state.Upgrade(ctx, newer.Store))
	if _, err := state.Open(ctx, newer.Store, state.Options{}); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Open of format 3 = %v, want not supported", err)
	}
}
