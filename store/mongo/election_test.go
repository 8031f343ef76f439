package mongo_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// TestElectionsAreFollowedAtOnce: the driver would sleep for half a second in each
// election, and here does so in none.
func TestElectionsAreFollowedAtOnce(t *testing.T) {
	server := newDouble(t, mongotest.Config{Members: 3})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	apply(t, s, store.Insert(key("0"), []byte("x"), nil))
	const elections = 60
	began, shortest := time.Now(), time.Hour
	for range elections {
		start := time.Now()
		server.StepDown()
		apply(t, s, store.Replace(key("0"), rev(t, s, key("0")), []byte("y"), nil))
		shortest = min(shortest, time.Since(start))
	}
	t.Logf("%d elections, each with a write after it: %v, the shortest %v", elections, time.Since(began), shortest)
	if shortest >= 500*time.Millisecond { // the longer ones may be those of a machine that is busy
		t.Errorf("each of %d elections took %v or more", elections, shortest)
	}
}

// hole is a connection whose other end hears nothing while it is silent.
type hole struct {
	net.Conn
	silent *atomic.Bool
}

func (h hole) Write(p []byte) (int, error) {
	if h.silent.Load() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// TestASilentPrimaryIsLeft: a primary that loses its power or its network closes no
// connection. Calls that it owes an answer go on with the next one, long before
// their deadline.
func TestASilentPrimaryIsLeft(t *testing.T) {
	t.Parallel() // it waits most of the time
	server := newDouble(t, mongotest.Config{Members: 3})
	var silent [3]atomic.Bool
	addrs := server.Addrs()
	s := open(t, mongo.Config{URL: server.URL("slipway"), Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		for i, a := range addrs {
			if a == addr && err == nil {
				return hole{nc, &silent[i]}, nil
			}
		}
		return nc, err
	}})
	apply(t, s, store.Insert(key("0"), []byte("x"), nil))
	silent[0].Store(true) // the first primary
	server.StepDown()
	began := time.Now()
	apply(t, s, store.Replace(key("0"), rev(t, s, key("0")), []byte("y"), nil))
	took := time.Since(began)
	t.Logf("a call that a silent primary owed an answer ended after %v", took)
	if took > 30*time.Second {
		t.Errorf("it took %v, of a deadline of a minute", took)
	}
}
