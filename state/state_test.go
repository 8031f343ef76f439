package state_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

var ctx = context.Background()

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// next returns a StringsWatcher's next event, sorted.
func next(t *testing.T, w watcher.StringsWatcher) []string {
	t.Helper()
	select {
	case ids, ok := <-w.Changes():
		if !ok {
			t.Fatalf("watcher ended: %v", w.Wait())
		}
		ids = slices.Clone(ids)
		tag.SortMachines(ids)
		return ids
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return nil
}

func wantNext(t *testing.T, w watcher.StringsWatcher, want ...string) {
	t.Helper()
	if got := next(t, w); !slices.Equal(got, want) {
		t.Fatalf("event names %q, want %q", got, want)
	}
}

func TestAddGetAndWatchMachines(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	w, err := st.Machines().Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	wantNext(t, w)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	wantNext(t, w, "0")
	c := statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	if c.Id() != "0/lxd/0" {
		t.Errorf("container id %s, want 0/lxd/0", c.Id())
	}
	found, err := st.FindEntities(ctx, []tag.Tag{m.Tag(), c.Tag(), tag.NewMachineTag("7")})
	if err != nil {
		t.Fatal(err)
	}
	if got := found[1].Entity.(*state.Machine).Id(); got != "0/lxd/0" {
		t.Errorf("found %s, want 0/lxd/0", got)
	}
	if !errors.Is(found[2].Err, errors.NotFound) || found[2].Err.Error() != "machine 7 not found" {
		t.Errorf("found %v, want machine 7 not found", found[2].Err)
	}
	if err := m.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(ctx); err == nil || err.Error() != `machine 0 is hosting containers "0/lxd/0"` {
		t.Errorf("Destroy = %v", err)
	}
	for _, end := range []func(context.Context) error{c.Destroy, c.EnsureDead, c.Remove, m.EnsureDead, m.Remove} {
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantNext(t, w, "0")
}
