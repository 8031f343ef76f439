package apiserver_test

import (
	"context"
	"sync"
	"testing"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// follow makes n watchers of the model's machines and waits on each for its next
// event. What it returns waits for all of them.
func follow(t testing.TB, c *rpc.Client, n int) (events func() int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range n {
		var w params.StringsWatchResult
		if err := call(c, "Provisioner", 3, "WatchModelMachines", nil, &w); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var r params.StringsWatchResult
			err := c.Call(ctx, rpc.Request{Type: "StringsWatcher", Version: 1, ID: w.StringsWatcherID, Method: "Next"}, nil, &r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(r.Changes) == 1 {
				got++
			}
		})
	}
	return func() int {
		wg.Wait()
		return got
	}
}

func TestThousandsOfWatchersOnOneConnection(t *testing.T) {
	const n = 2000
	s := newSite(t)
	path := modelPath(s.Default.ModelUUID())
	c := s.as(path, manager)
	events := follow(t, c, n)
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	if got := events(); got != n {
		t.Errorf("%d of %d watchers told the change", got, n)
	}
	must(t, c, "Pinger", 1, "Ping", nil, nil)
	if err := c.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	// What is left of the connection shows at the end of all tests.
}

func TestWatchersOfOneConnectionAreUnknownToOthers(t *testing.T) {
	s := newSite(t)
	path := modelPath(s.Default.ModelUUID())
	one, other := s.as(path, manager), s.as(path, manager)
	var w params.StringsWatchResult
	must(t, one, "Provisioner", 3, "WatchModelMachines", nil, &w)
	err := callOnce(other, rpc.Request{Type: "StringsWatcher", Version: 1, ID: w.StringsWatcherID, Method: "Next"})
	if failure(err) != "unknown watcher id [not found]" {
		t.Errorf("Next on another connection's watcher = %v, want it unknown", failure(err))
	}
}

// BenchmarkFanOut is one new machine told to 1,000 watchers on 100 connections,
// clients included.
func BenchmarkFanOut(b *testing.B) {
	s := newEmbeddedSite(b)
	path := modelPath(s.Default.ModelUUID())
	const conns, watchers = 100, 10
	type followed struct {
		c  *rpc.Client
		id string
	}
	var all []followed
	for range conns {
		c := s.as(path, manager)
		for range watchers {
			var w params.StringsWatchResult
			if err := call(c, "Provisioner", 3, "WatchModelMachines", nil, &w); err != nil {
				b.Fatal(err)
			}
			all = append(all, followed{c, w.StringsWatcherID})
		}
	}
	for b.Loop() {
		var wg sync.WaitGroup
		statetest.AddMachine(b, s.Default, state.MachineSpec{})
		for _, f := range all {
			wg.Go(func() {
				if err := callOnce(f.c, rpc.Request{Type: "StringsWatcher", Version: 1, ID: f.id, Method: "Next"}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(conns*watchers), "ns/watcher")
}
