package baremetal

import (
	"context"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
)

const (
	// together is how many machines at most one call asks hosts for: as many as the
	// controller writes in one batch.
	together = 100
	// togetherBytes is how much they say at most, unless one alone says more: a
	// server takes requests of 4 MiB, and JSON may make six bytes of one.
	togetherBytes = 512 << 10
)

// gatherer asks for the hosts of machines that are started at a time with as few calls
// as can be: the first goes at once, and those that come while a call is under way go
// together when it has ended. Its methods may be called at any time by any goroutine.
type gatherer struct {
	hosts environs.HostPool

	mu      sync.Mutex
	running bool   // calls are being made
	waiting []*ask // for the call under way to end
}

// ask is what one machine wants, and what it got.
type ask struct {
	params.AllocateHost

	done  chan struct{} // closed when the rest is known
	given params.ConsumedHost
	err   error

	call *call // that it is part of; nil while it waits
}

// call is what several asks share.
type call struct {
	members int // that still want to know
	cancel  context.CancelFunc
}

// allocate asks for the host of one machine. A call that goes on for others may still
// give it one when ctx is done; if there are no others it has ended on return.
func (g *gatherer) allocate(ctx context.Context, a params.AllocateHost) (params.ConsumedHost, error) {
	if err := ctx.Err(); err != nil {
		return params.ConsumedHost{}, errors.Trace(err)
	}
	mine := &ask{AllocateHost: a, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, mine)
	if !g.running {
		g.running = true
		go g.run(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case <-mine.done:
		return mine.given, mine.err
	case <-ctx.Done():
	}
	if g.leave(mine) {
		<-mine.done
	}
	return params.ConsumedHost{}, errors.Trace(ctx.Err())
}

// leave says that nobody wants to know of an ask any more. It reports whether the call
// was for it alone, which therefore ends.
func (g *gatherer) leave(a *ask) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.call == nil {
		for i, w := range g.waiting {
			if w == a {
				g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
				break
			}
		}
		return false
	}
	if a.call.members--; a.call.members > 0 {
		return false
	}
	a.call.cancel()
	return true
}

// run makes calls until nobody waits for one.
func (g *gatherer) run(ctx context.Context) {
	for {
		asks, ctx := g.next(ctx)
		if asks == nil {
			return
		}
		g.ask(ctx, asks)
	}
}

// next returns who is to be asked for in one call, and that call's context; nobody ends
// the running.
func (g *gatherer) next(ctx context.Context) ([]*ask, context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for ; n < min(len(g.waiting), together); n++ {
		a := g.waiting[n]
		size += len(a.Data.UserData) + len(a.Data.NetworkData) + len(a.Image)
		if n > 0 && size > togetherBytes {
			break
		}
	}
	if n == 0 {
		g.running, g.waiting = false, nil
		return nil, nil
	}
	asks := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	ctx, cancel := context.WithCancel(ctx)
	shared := &call{members: n, cancel: cancel}
	for _, a := range asks {
		a.call = shared
	}
	return asks, ctx
}

// ask makes one call.
func (g *gatherer) ask(ctx context.Context, asks []*ask) {
	defer asks[0].call.cancel()
	machines := make([]params.AllocateHost, len(asks))
	for i, a := range asks {
		machines[i] = a.AllocateHost
	}
	given, failed, err := g.hosts.Allocate(ctx, machines...)
	for i, a := range asks {
		if a.err = err; err == nil {
			a.given, a.err = given[i], failed[i]
		}
		close(a.done)
	}
}
