package wire_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// bed is a scripted server behind pipes, in a test with a clock of its own.
type bed struct {
	*wire.Dialer
	t       *testing.T
	hangs   atomic.Bool // new connections are taken, and never served
	dials   atomic.Int32
	serving sync.WaitGroup
}

// newBed returns a dialer of a server that takes some time for each answer.
func newBed(t *testing.T, slow time.Duration) *bed {
	b := &bed{t: t}
	s := &server{t: t, hello: helloDoc(21), handle: func(m wire.Message, msg wire.Msg) []byte {
		time.Sleep(slow)
		return always(okDoc())(m, msg)
	}}
	b.Dialer = &wire.Dialer{Timeout: 4 * time.Second, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		b.dials.Add(1)
		ours, theirs := net.Pipe()
		if b.hangs.Load() {
			t.Cleanup(func() { theirs.Close() })
			return ours, nil
		}
		b.serving.Go(func() { s.serve(theirs) })
		return ours, nil
	}}
	return b
}

// ask sends a request on a new connection, and returns that.
func (b *bed) ask() net.Conn {
	nc, err := b.Conn(context.Background(), "a:1")
	if err != nil {
		b.t.Fatal(err)
	}
	send(b.t, nc, wire.AppendQuery(nil, 7, wire.Query{Namespace: "db.$cmd", Limit: -1, Query: bson.Build().Int32("ping", 1).End()}))
	return nc
}

// TestASilentServerIsGivenUp: when a server owes an answer and does not take new
// connections either, who waits hears of it in seconds.
func TestASilentServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, time.Hour)
		began := time.Now()
		all := []net.Conn{b.ask(), b.ask(), b.ask()}
		b.hangs.Store(true)
		for _, nc := range all {
			ended(t, nc)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("it took %v, want 2 s until it is looked at, and 3 s for that", d)
		}
		dials := b.dials.Load()
		if dials != 4 {
			t.Errorf("%d connections were opened, want 3, and one to look", dials)
		}
		for range 5 { // while the driver waits for one, it sees no other server
			if _, err := b.Conn(t.Context(), "a:1"); err == nil || b.dials.Load() != dials {
				t.Errorf("a silent server is tried again at once: %v", err)
			}
		}
		if _, err := b.Conn(t.Context(), "other:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another server: %v, want it tried", err)
		}
		time.Sleep(2 * time.Second)
		b.hangs.Store(false)
		nc, err := b.Conn(t.Context(), "a:1")
		if err != nil {
			t.Fatalf("later it is not tried again: %v", err)
		}
		for _, c := range append(all, nc) {
			c.Close()
		}
		b.Close()
		time.Sleep(2 * time.Hour) // until the server has done with what it was asked
		b.serving.Wait()
	})
}

// TestASlowServerIsWaitedFor: a server that takes new connections is asked nothing
// else, however long the answer takes.
func TestASlowServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, time.Minute)
		nc := b.ask()
		receive(t, nc, 7)
		if n := b.dials.Load(); n < 10 || n > 40 {
			t.Errorf("%d connections were opened in a minute, want a look about every two seconds", n)
		}
		before := b.dials.Load()
		time.Sleep(time.Hour)
		if n := b.dials.Load() - before; n > 1 {
			t.Errorf("%d looks at a server that owes nothing", n)
		}
		nc.Close()
		b.Close()
		b.serving.Wait()
	})
}

// TestCloseEndsLooks: nothing goes on after Close.
func TestCloseEndsLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, time.Hour)
		nc := b.ask()
		b.hangs.Store(true)
		time.Sleep(2500 * time.Millisecond) // a look is under way
		began := time.Now()
		b.Close()
		if d := time.Since(began); d != 0 {
			t.Errorf("Close took %v", d)
		}
		ended(t, nc)
		nc.Close()
		time.Sleep(2 * time.Hour)
		b.serving.Wait()
	})
}
