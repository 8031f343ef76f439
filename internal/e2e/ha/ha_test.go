//go:build e2e

package ha_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/watcher"
)

// writer sets one setting of a model of its own to 1, 2, 3 and so on. A number
// whose answer is lost is set again, on the next connection.
type writer struct {
	info  api.Info
	acked atomic.Int64
	moves atomic.Int64 // connections after the first
}

func value(n int64) string { return fmt.Sprintf("http://proxy-%d.example.com", n) }

func (w *writer) run(ctx context.Context) error {
	r := api.Reconnector{Info: w.info}
	w.moves.Store(-1)
	err := r.Run(ctx, func(ctx context.Context, c *api.Conn) error {
		w.moves.Add(1)
		for {
			next := w.acked.Load() + 1
			if err := modelconfig.New(c).Set(ctx, map[string]any{"http-proxy": value(next)}); err != nil {
				return err
			}
			w.acked.Store(next)
		}
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func TestRestartsOneAfterTheOtherLoseNothing(t *testing.T) {
	c := newCluster(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all []*writer
	var wg sync.WaitGroup
	for i := range 8 {
		w := &writer{info: c.infoOf(c.addModel(fmt.Sprintf("m%d", i)), i%2)}
		all = append(all, w)
		wg.Go(func() {
			if err := w.run(ctx); err != nil {
				t.Errorf("a writer gave up: %v", err)
			}
		})
	}
	moving := func(i int) {
		before := make([]int64, len(all))
		for k, w := range all {
			before[k] = w.acked.Load()
		}
		harness.Eventually(t, "every writer goes on", func() bool {
			for k, w := range all {
				if w.acked.Load() < before[k]+5 {
					return false
				}
			}
			return true
		})
		harness.Eventually(t, "both controllers are published", func() bool { return len(c.published(i)) == 2 })
	}
	moving(0)
	for round := range 2 {
		for i, p := range c.procs {
			began := time.Now()
			p.End()
			p.Serve()
			moving(i)
			t.Logf("round %d: controller %d restarted and everyone went on after %v", round, i, time.Since(began).Round(time.Millisecond))
		}
	}
	stop()
	wg.Wait()
	var calls, moves int64
	for i, w := range all {
		acked := w.acked.Load()
		calls, moves = calls+acked, moves+w.moves.Load()
		conn, err := api.Open(t.Context(), c.infoOf(w.info.ModelUUID, i%2), api.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := modelconfig.New(conn).Get(t.Context())
		_ = conn.Close() // nothing is under way
		if err != nil {
			t.Fatal(err)
		}
		if v := got["http-proxy"].Value; v != value(acked) && v != value(acked+1) { // the last answer may have been lost
			t.Errorf("writer %d: the setting is %v after %q was acknowledged", i, v, value(acked))
		}
	}
	if moves < 8 {
		t.Errorf("writers moved %d times, want at least 8: nothing was tested", moves)
	}
	t.Logf("%d writes, %d moves from one connection to the next", calls, moves)
}

// follower is a client that watches something, and notes when it could again.
type follower struct {
	info  api.Info
	watch func(ctx context.Context, c *api.Conn) (watcher.Watcher, error)
	back  chan sighting
}

// sighting is when a client was served, and by whom.
type sighting struct {
	at   time.Time
	addr string
}

func (f *follower) run(ctx context.Context) {
	r := api.Reconnector{Info: f.info}
	_ = r.Run(ctx, func(ctx context.Context, c *api.Conn) error { // it ends with the test
		w, err := f.watch(ctx, c)
		if err != nil {
			return err
		}
		defer func() { w.Kill(); _ = w.Wait() }()
		select {
		case f.back <- sighting{time.Now(), c.Addr()}:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return ctx.Err()
	})
}

// followers returns agents, and people, whose passwords cost the server more.
func (c *cluster) followers(agents, people int) []*follower {
	c.t.Helper()
	file, err := agentfile.Read(c.path("first/agents/machine-0.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	agent := file.Info()
	agent.Addrs = []string{c.addrs[1], c.addrs[0]}
	person := c.infoOf(c.addModel("watched"), 1)
	var all []*follower
	for i := range agents + people {
		f := &follower{info: agent, back: make(chan sighting, 10)}
		f.watch = func(ctx context.Context, c *api.Conn) (watcher.Watcher, error) {
			return provisioner.New(c).WatchModelMachines(ctx)
		}
		if i >= agents {
			f.info = person
			f.watch = func(ctx context.Context, c *api.Conn) (watcher.Watcher, error) {
				return client.New(c).WatchAll(ctx)
			}
		}
		all = append(all, f)
	}
	return all
}

// late is six times the 5 s after which clients are promised to be back: these tests
// also run beside other work.
const late = 30 * time.Second

func TestClientsOfAKilledControllerComeBack(t *testing.T) {
	c := newCluster(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	all := c.followers(200, 200)
	for _, f := range all {
		wg.Go(func() { f.run(ctx) })
	}
	wait := func(f *follower) sighting {
		select {
		case s := <-f.back:
			return s
		case <-time.After(harness.Patience):
			t.Fatal("a client is not back")
			return sighting{}
		}
	}
	var there []*follower
	for _, f := range all {
		if wait(f).addr == c.addrs[1] { // some find the other one faster
			there = append(there, f)
		}
	}
	if len(there) < len(all)/4 {
		t.Fatalf("%d of %d clients are connected to the controller that is to be killed", len(there), len(all))
	}
	command(t, c.env, "slipway", "models") // it hears of both controllers
	killed := time.Now()
	c.procs[1].Kill()
	var took []time.Duration
	for _, f := range there {
		took = append(took, wait(f).at.Sub(killed))
	}
	slices.Sort(took)
	t.Logf("%d clients back: first %v, median %v, last %v", len(took), took[0].Round(time.Millisecond),
		took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	if last := took[len(took)-1]; last > late {
		t.Errorf("the last client was back after %v, want at most %v", last, late)
	}
	harness.Eventually(t, "the killed controller is no longer published", func() bool {
		return strings.Join(c.published(0), " ") == c.addrs[0]
	})
	t.Logf("its addresses were gone after %v", time.Since(killed).Round(time.Millisecond))

	c.procs[1].Serve()
	harness.Eventually(t, "it is published again", func() bool { return len(c.published(0)) == 2 })
	command(t, c.env, "slipway", "models")
	c.procs[0].Kill() // now the first one, which the operator's files name first
	began := time.Now()
	if out := command(t, c.env, "slipway", "models"); !strings.Contains(out, "watched") {
		t.Errorf("slipway models printed %q", out)
	}
	if d := time.Since(began); d > late {
		t.Errorf("slipway needed %v after the first controller was killed, want at most %v", d, late)
	}
}
