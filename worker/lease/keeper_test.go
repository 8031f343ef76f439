package lease_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/lease"
)

// controller is a controller's side of a lease, for several claimers.
type controller struct {
	mu      sync.Mutex
	holder  string
	epoch   int64
	renewed time.Time
	changed chan struct{}

	down  bool          // claims fail
	hangs bool          // claims are not answered
	slow  time.Duration // until claims are answered, once they are carried out
}

func newController() *controller { return &controller{changed: make(chan struct{})} }

func (c *controller) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// claimer is one process.
type claimer struct {
	*controller
	name string
}

func (c claimer) Claim(ctx context.Context) (int64, error) {
	c.mu.Lock()
	hangs, slow := c.hangs, c.slow
	defer func() {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
	}()
	defer c.mu.Unlock()
	if hangs {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return 0, ctx.Err()
	}
	if c.down {
		return 0, errors.New("no route to host")
	}
	if c.holder != c.name {
		if c.holder != "" && time.Since(c.renewed) < lease.DefaultDuration {
			return 0, kind.LeaseDenied
		}
		c.holder = c.name
		c.epoch++
	}
	c.renewed = time.Now()
	return c.epoch, nil
}

func (c claimer) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		rest := lease.DefaultDuration - time.Since(c.renewed)
		free := c.holder == "" || rest <= 0
		changed := c.changed
		c.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(rest):
		}
	}
}

func (c claimer) Release(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == c.name {
		c.holder = ""
		close(c.changed)
		c.changed = make(chan struct{})
	}
	return nil
}

// run is one life of a worker.
type run struct {
	tomb       tomb.Tomb
	who        string
	began, end time.Time
	tenure     *lease.Tenure
}

func (r *run) Kill()       { r.tomb.Kill(nil) }
func (r *run) Wait() error { return r.tomb.Wait() }

// log notes the lives of workers.
type log struct {
	mu   sync.Mutex
	runs []*run
}

// keeper returns a Keeper for a process, which is stopped at the test's end.
func (l *log) keeper(t *testing.T, c *controller, who string) *lease.Keeper {
	k, err := lease.New(lease.Config{Name: "model", Claimer: claimer{c, who}, Start: func(tenure *lease.Tenure) (worker.Worker, error) {
		r := &run{who: who, began: time.Now(), tenure: tenure}
		r.tomb.Go(func() error {
			<-r.tomb.Dying()
			r.end = time.Now()
			return nil
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs = append(l.runs, r)
		return r, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Kill()
		_ = k.Wait()
	})
	return k
}

func (l *log) last() *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[len(l.runs)-1]
}

func TestKeeperRunsOneWorkerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newController(), &log{}
		first := l.keeper(t, c, "a")
		time.Sleep(time.Millisecond)
		l.keeper(t, c, "b")
		time.Sleep(time.Hour)
		if got := l.last(); len(l.runs) != 1 || got.who != "a" || got.tenure.Epoch != 1 {
			t.Fatalf("after an hour %d workers ran, the last %s's at epoch %d", len(l.runs), got.who, got.tenure.Epoch)
		}
		if rest := l.last().tenure.Rest(); rest <= 0 || rest > lease.DefaultDuration*3/4 {
			t.Errorf("rest = %v", rest)
		}
		first.Kill()
		if err := first.Wait(); err != nil {
			t.Errorf("Wait = %v, want nil after Kill", err)
		}
		time.Sleep(time.Millisecond)
		if got := l.last(); got.who != "b" || got.tenure.Epoch != 2 {
			t.Errorf("after the owner's end: %s at epoch %d, want b at once", got.who, got.tenure.Epoch)
		}
	})
}

// TestKeeperStopsBeforeAnotherMayBegin cuts one process off in several ways, at
// every moment between two renewals, while another stands by.
func TestKeeperStopsBeforeAnotherMayBegin(t *testing.T) {
	cuts := map[string]func(*controller){
		"no answer":      func(c *controller) { c.hangs = true },
		"failures":       func(c *controller) { c.down = true },
		"answers late":   func(c *controller) { c.slow = time.Hour },
		"another's hand": func(c *controller) { c.holder, c.epoch, c.renewed = "thief", c.epoch+1, time.Now() },
	}
	for name, cut := range cuts {
		for ms := 0; ms <= 1500; ms += 250 {
			synctest.Test(t, func(t *testing.T) {
				c, l := newController(), &log{}
				l.keeper(t, c, "a")
				time.Sleep(time.Minute + time.Duration(ms)*time.Millisecond)
				first := l.last()
				if first.tomb.Err() != tomb.ErrStillAlive {
					t.Fatal("the first worker has ended without cause")
				}
				c.set(func() { cut(c) })
				cutAt := time.Now()
				heir := claimer{c, "b"}
				go func() {
					_ = heir.Wait(t.Context()) // never fails here
					if first.tomb.Err() == tomb.ErrStillAlive {
						t.Errorf("%s: the first worker runs when the next may begin", name)
					}
				}()
				<-first.tomb.Dead()
				if got := first.end.Sub(cutAt); got > lease.DefaultDuration {
					t.Errorf("%s: the worker went on for %v", name, got)
				}
				if rest := first.tenure.Rest(); rest > lease.DefaultDuration*3/4 {
					t.Errorf("%s: rest = %v", name, rest)
				}
				c.set(func() { c.hangs, c.down, c.slow = false, false, 0 })
				time.Sleep(lease.DefaultDuration)
			})
		}
	}
}

func TestKeeperGoesOnAfterAFailedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := newController(), &log{}
		k := l.keeper(t, c, "a")
		for range 20 {
			time.Sleep(2 * time.Second)
			c.set(func() { c.down = true })
			time.Sleep(2 * time.Second)
			c.set(func() { c.down = false })
		}
		if len(l.runs) != 1 || l.last().tomb.Err() != tomb.ErrStillAlive {
			t.Errorf("%d workers ran, want the first all the time", len(l.runs))
		}
		l.last().tomb.Kill(errors.New("broken"))
		if err := k.Wait(); err == nil || err.Error() != "broken" {
			t.Errorf("Wait = %v, want the worker's failure", err)
		}
		if c.holder != "" {
			t.Error("the lease is kept although the worker has failed")
		}
	})
}

func TestKeeperNeedsEverything(t *testing.T) {
	if _, err := lease.New(lease.Config{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New = %v, want not valid", err)
	}
}
