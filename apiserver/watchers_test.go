package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

// long bounds waits for what needs many calls.
const long = time.Minute

// watchers waits until the site has as many watchers as it should.
func (s *site) watchers(want int) {
	s.t.Helper()
	deadline := time.Now().Add(long)
	for s.Watchers() != want {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d watchers, want %d", s.Watchers(), want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// waiting calls Next of a watcher, and returns where its end is told.
func waiting(c *rpc.Client, facade, id string) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		done <- c.Call(ctx, rpc.Request{Type: facade, Version: 1, ID: id, Method: "Next"}, nil, nil)
	}()
	return done
}

func TestStopReleasesABlockedNext(t *testing.T) {
	const n = 50
	s := newSite(t)
	c := s.as(modelPath(s.Default.ModelUUID()), manager)
	before := s.Watchers()
	type blocked struct {
		facade, id string
		next       []<-chan error
	}
	var all []blocked
	for range n {
		var strings params.StringsWatchResult
		must(t, c, "Provisioner", 3, "WatchModelMachines", nil, &strings)
		var notify params.NotifyWatchResult
		must(t, c, "Provisioner", 3, "WatchForModelConfigChanges", nil, &notify)
		for facade, id := range map[string]string{"StringsWatcher": strings.StringsWatcherID, "NotifyWatcher": notify.NotifyWatcherID} {
			all = append(all, blocked{facade, id, []<-chan error{waiting(c, facade, id), waiting(c, facade, id)}})
		}
	}
	s.watchers(before + 2*n)
	stop := func(b blocked) error {
		return callOnce(c, rpc.Request{Type: b.facade, Version: 1, ID: b.id, Method: "Stop"})
	}
	for _, b := range all {
		if err := stop(b); err != nil {
			t.Errorf("Stop = %v", err)
		}
		for _, next := range b.next {
			if err := <-next; failure(err) != "watcher has been stopped [stopped]" {
				t.Errorf("Next of a %s that was stopped = %v", b.facade, failure(err))
			}
		}
		if err := <-waiting(c, b.facade, b.id); failure(err) != "watcher has been stopped [stopped]" {
			t.Errorf("Next after Stop of a %s = %v", b.facade, failure(err))
		}
		if err := stop(b); err != nil {
			t.Errorf("Stop once more = %v", err)
		}
	}
	s.watchers(before)
}

func TestEndOfAConnectionEndsItsWatchers(t *testing.T) {
	const n = 500
	s := newSite(t)
	before := s.Watchers()
	for _, end := range []func(c *rpc.Client){
		func(c *rpc.Client) { _ = c.Close() },                                 // with a goodbye
		func(*rpc.Client) { s.server.Recycle(t.Context(), time.Millisecond) }, // by the server
	} {
		c := s.as(modelPath(s.Default.ModelUUID()), manager)
		var next []<-chan error
		for range n {
			var w params.StringsWatchResult
			must(t, c, "Provisioner", 3, "WatchModelMachines", nil, &w)
			next = append(next, waiting(c, "StringsWatcher", w.StringsWatcherID))
		}
		end(c)
		for _, done := range next {
			if err := <-done; err == nil {
				t.Error("Next on a connection that has ended succeeds")
			}
		}
		s.watchers(before)
	}
}

// TestASlowReaderHoldsUpNobody has one watcher that is not read while much
// happens, beside one that is. The slow one then hears of everything at once.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	const n = 200
	s := newSite(t)
	path := modelPath(s.Default.ModelUUID())
	c := s.as(path, manager)
	var slow, fast params.StringsWatchResult
	must(t, c, "Provisioner", 3, "WatchModelMachines", nil, &slow)
	must(t, c, "Provisioner", 3, "WatchModelMachines", nil, &fast)
	for i := range n {
		m := statetest.AddMachine(t, s.Default, state.MachineSpec{})
		s.must(m.SetStatus(t.Context(), status.Info{Status: status.Started})) // which no watcher of lives tells
		var told params.StringsWatchResult
		next(t, c, "StringsWatcher", fast.StringsWatcherID, &told)
		if !slices.Equal(told.Changes, []string{m.Id()}) {
			t.Fatalf("change %d: %q, want %q alone", i, told.Changes, m.Id())
		}
	}
	s.Users().Watch().Kill() // which waits until all have been told what one of them was
	var told params.StringsWatchResult
	next(t, c, "StringsWatcher", slow.StringsWatcherID, &told)
	seen := make(map[string]bool)
	for _, id := range told.Changes {
		if seen[id] {
			t.Errorf("machine %s is told twice in one event", id)
		}
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("the slow reader is told of %d machines, want %d", len(seen), n)
	}
	// Nothing more is there: the next thing it hears of is the next that happens.
	m := statetest.AddMachine(t, s.Default, state.MachineSpec{})
	next(t, c, "StringsWatcher", slow.StringsWatcherID, &told)
	if !slices.Equal(told.Changes, []string{m.Id()}) {
		t.Errorf("then %q, want %q alone", told.Changes, m.Id())
	}
}

// follower is what a client makes of its watchers: the life of each machine, and a
// setting of the model, each looked up after an event that tells of it.
type follower struct {
	c    *rpc.Client
	mu   sync.Mutex
	life map[string]string
	http string
}

// lives follows machines until its connection ends.
func (f *follower) lives() error {
	var w params.StringsWatchResult
	if err := call(f.c, "Provisioner", 3, "WatchModelMachines", nil, &w); err != nil {
		return err
	}
	ids := w.Changes
	for {
		if len(ids) > 0 {
			tags := make([]string, len(ids))
			for i, id := range ids {
				tags[i] = "machine-" + id
			}
			var r params.LifeResults
			if err := call(f.c, "Provisioner", 3, "Life", entities(tags...), &r); err != nil {
				return err
			}
			f.mu.Lock()
			for i, id := range ids {
				delete(f.life, id)
				if r.Results[i].Error == nil {
					f.life[id] = string(r.Results[i].Life)
				}
			}
			f.mu.Unlock()
		}
		var event params.StringsWatchResult
		err := f.c.Call(context.Background(), rpc.Request{Type: "StringsWatcher", Version: 1, ID: w.StringsWatcherID, Method: "Next"}, nil, &event)
		if err != nil {
			return err
		}
		ids = event.Changes
	}
}

// settings follows the model's settings likewise.
func (f *follower) settings() error {
	var w params.NotifyWatchResult
	if err := call(f.c, "Provisioner", 3, "WatchForModelConfigChanges", nil, &w); err != nil {
		return err
	}
	for {
		var r params.ModelConfigResult
		if err := call(f.c, "Provisioner", 3, "ModelConfig", nil, &r); err != nil {
			return err
		}
		f.mu.Lock()
		f.http, _ = r.Config["http-proxy"].(string)
		f.mu.Unlock()
		err := f.c.Call(context.Background(), rpc.Request{Type: "NotifyWatcher", Version: 1, ID: w.NotifyWatcherID, Method: "Next"}, nil, nil)
		if err != nil {
			return err
		}
	}
}

// TestNoChangeIsMissedWhenTheFeedIsLost has the history of changes lost at every other
// call, while machines come, die and go. What clients make of what their watchers
// tell them ends as what is true.
func TestNoChangeIsMissedWhenTheFeedIsLost(t *testing.T) {
	const clients, machines = 5, 60
	s := newSite(t)
	before := s.Watchers()
	var calls, lost atomic.Int64
	losing := func(_ context.Context, c storetest.Call) error {
		if c.Method == "Next" && calls.Add(1)%2 == 1 { // the first too, however many changes one call brings
			lost.Add(1)
			return store.ErrHistoryLost
		}
		return nil
	}
	s.held.Store(&losing)
	path := modelPath(s.Default.ModelUUID())
	var followers []*follower
	var wg sync.WaitGroup
	for range clients {
		f := &follower{c: s.as(path, manager), life: make(map[string]string)}
		followers = append(followers, f)
		wg.Go(func() { _ = f.lives() })    // they end with the connection
		wg.Go(func() { _ = f.settings() }) // likewise
	}
	truth := make(map[string]string)
	ctx := t.Context()
	for i := range machines {
		m := statetest.AddMachine(t, s.Default, state.MachineSpec{})
		truth[m.Id()] = string(life.Alive)
		switch i % 4 {
		case 1:
			s.must(m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-x", Nonce: agentNonce}))
			s.must(m.Destroy(ctx))
			truth[m.Id()] = string(life.Dying)
		case 2:
			s.must(m.EnsureDead(ctx))
			truth[m.Id()] = string(life.Dead)
		case 3:
			s.must(m.EnsureDead(ctx))
			s.must(m.Remove(ctx))
			delete(truth, m.Id())
		}
		s.must(s.Default.ModelConfig().Update(ctx, config.Update{Set: map[string]any{"http-proxy": fmt.Sprintf("http://proxy:%d", i+1)}}))
	}
	proxy := fmt.Sprintf("http://proxy:%d", machines)
	deadline := time.Now().Add(long)
	for n, f := range followers {
		for {
			f.mu.Lock()
			knows, http := maps.Clone(f.life), f.http
			f.mu.Unlock()
			// One that was dead before anybody looked is never told of.
			maps.DeleteFunc(knows, func(_, l string) bool { return l == string(life.Dead) })
			want := maps.Clone(truth)
			maps.DeleteFunc(want, func(_, l string) bool { return l == string(life.Dead) })
			if maps.Equal(knows, want) && http == proxy {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("client %d knows %v and %q, want %v and %q (the feed was lost %d times)", n, knows, http, want, proxy, lost.Load())
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	if lost.Load() == 0 {
		t.Error("the feed was never lost")
	}
	for _, f := range followers {
		if err := f.c.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
			t.Errorf("Close() = %v", err)
		}
	}
	wg.Wait()
	s.watchers(before)
}
