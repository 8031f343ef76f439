package state_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestDropsReachTheOtherServersOnce(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	before := []state.Drop{{Tag: "user-early"}}
	must(t, site.AnnounceDrops(ctx, "0", before))
	flush(t, site)
	own, err := site.NewDropReader(ctx, "0")
	must(t, err)
	other, err := site.NewDropReader(ctx, "1")
	must(t, err)
	w := site.WatchDrops()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	read := func(r *state.DropReader, want ...state.Drop) {
		t.Helper()
		got, err := r.Next(ctx)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("drops are %v, want %v", got, want)
		}
	}
	read(other)
	bob, agent := state.Drop{Tag: "user-bob"}, state.Drop{ModelUUID: "m", Tag: "machine-0"}
	must(t, site.AnnounceDrops(ctx, "0", []state.Drop{bob}))
	wantNotice(t, w)
	must(t, site.AnnounceDrops(ctx, "0", []state.Drop{agent}))
	read(other, bob, agent)
	read(other)
	read(own)
	must(t, site.AnnounceDrops(ctx, "2", []state.Drop{bob})) // a server that is new
	read(other, bob)
	read(own, bob)
}

func TestOldDropsAreForgotten(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	r, err := site.NewDropReader(ctx, "1")
	must(t, err)
	for i := range 3 {
		var many []state.Drop
		for n := range 600 {
			many = append(many, state.Drop{Tag: fmt.Sprintf("user-u%d", i*600+n)})
		}
		must(t, site.AnnounceDrops(ctx, "0", many))
	}
	got, err := r.Next(ctx)
	must(t, err)
	if len(got) != 1000 || got[999].Tag != "user-u1799" {
		t.Errorf("%d drops are kept, want the newest 1000", len(got))
	}
}
