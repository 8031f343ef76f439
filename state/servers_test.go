package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
)

// at returns where a server is, by the last number of its address.
func at(n int) []network.HostPort {
	return []network.HostPort{{Address: network.NewAddress(fmt.Sprintf("10.0.0.%d", n)), Port: 17070}}
}

// published returns the published addresses.
func published(t *testing.T, site *statetest.Site) []string {
	t.Helper()
	servers, err := site.APIHostPorts(ctx)
	must(t, err)
	var out []string
	for _, s := range servers {
		out = append(out, s[0].Value)
	}
	return out
}

func wantPublished(t *testing.T, site *statetest.Site, want ...string) {
	t.Helper()
	if got := published(t, site); !slices.Equal(got, want) {
		t.Errorf("published are %q, want %q", got, want)
	}
}

func TestServersPublishAndWithdraw(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	must(t, site.Publish(ctx, "1", at(1)))
	must(t, site.Publish(ctx, "0", at(2)))
	wantPublished(t, site, "10.0.0.2", "10.0.0.1")
	must(t, site.Beat(ctx, "1", at(3)))
	wantPublished(t, site, "10.0.0.2", "10.0.0.3")
	must(t, site.Withdraw(ctx, "2")) // never was there
	must(t, site.Withdraw(ctx, "1"))
	wantPublished(t, site, "10.0.0.2")
	must(t, site.Withdraw(ctx, "0"))
	wantPublished(t, site, "10.0.0.2") // the last one's stay
	must(t, site.Beat(ctx, "1", at(1)))
	wantPublished(t, site, "10.0.0.2", "10.0.0.1")
}

func TestTheLastTwoServersDoNotBothWithdraw(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for range 20 {
		must(t, site.Publish(ctx, "0", at(1)))
		must(t, site.Publish(ctx, "1", at(2)))
		done := make(chan error, 2)
		for _, id := range []string{"0", "1"} {
			go func() { done <- site.Withdraw(ctx, id) }()
		}
		must(t, <-done)
		must(t, <-done)
		if got := published(t, site); len(got) != 1 {
			t.Fatalf("published are %q, want one server's", got)
		}
	}
}

func TestServersThatAreGoneAreRemoved(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	must(t, site.Beat(ctx, "0", at(0)))
	must(t, site.Beat(ctx, "1", at(1)))
	must(t, site.Publish(ctx, "2", at(2))) // died before it first was alive
	roll, other := site.NewRoll("0"), site.NewRoll("1")
	const patience = 10 * time.Second
	now := time.Unix(1000, 0)
	call := func(r *state.Roll, now time.Time, want ...string) {
		t.Helper()
		gone, err := r.Call(ctx, now, patience)
		must(t, err)
		slices.Sort(gone)
		if !slices.Equal(gone, want) {
			t.Errorf("gone are %q, want %q", gone, want)
		}
	}
	call(roll, now)
	call(roll, now.Add(9*time.Second))
	must(t, site.Beat(ctx, "1", at(1)))
	call(roll, now.Add(10*time.Second), "2")
	wantPublished(t, site, "10.0.0.0", "10.0.0.1")
	call(roll, now.Add(19*time.Second))
	call(roll, now.Add(20*time.Second), "1") // and never itself
	wantPublished(t, site, "10.0.0.0")
	must(t, site.Beat(ctx, "1", at(1))) // it was only slow
	wantPublished(t, site, "10.0.0.0", "10.0.0.1")
	call(other, now.Add(time.Hour)) // the first call decides nothing
	call(roll, now.Add(time.Hour))
}

func TestServerIDsAreNotUsedAgain(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, want := range []string{"1", "2", "3"} {
		if id, err := site.NewServerID(ctx); err != nil || id != want {
			t.Errorf("NewServerID = %q, %v, want %s", id, err, want)
		}
		must(t, site.Withdraw(ctx, want))
	}
}

// TestHeartbeatsWakeNobody makes sure that what is written all the time is heard
// of by no watcher of addresses.
func TestHeartbeatsWakeNobody(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	must(t, site.Publish(ctx, "0", at(0)))
	flush(t, site)
	w := site.WatchAPIHostPorts()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	must(t, site.Beat(ctx, "0", at(0)))
	must(t, site.Beat(ctx, "0", at(0)))
	wantNothing(t, site, w.Changes())
	if page, err := site.Store.List(ctx, store.Query{Collection: "beats"}); err != nil || len(page.Docs) != 1 {
		t.Errorf("%d heartbeats are kept, %v, want 1", len(page.Docs), err)
	}
}
