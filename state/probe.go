package state

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Probe is a look at whether the state is alive: how long it took to write a
// small document, to read it again, and to hear of the change as watchers do.
type Probe struct{ Write, Read, Notice time.Duration }

// ErrUnnoticed says that the store works, and that watchers do not hear of what
// changes in it.
const ErrUnnoticed = errors.ConstError("changes are not noticed")

// probeDoc is what a probe writes.
type probeDoc struct {
	At time.Time `json:"at"`
}

var probeKey = siteKey(siteC, "probe")

// Probe writes and reads a small document of the site, and waits for the news of
// it. It returns an error satisfying ErrUnnoticed if only the news stays away
// until ctx is done, and another if the store fails. Several controllers may
// probe at once.
func (c *Controller) Probe(ctx context.Context) (Probe, error) {
	var p Probe
	w := c.hub.watchKey(probeKey)
	defer w.Kill()
	select {
	case <-w.Changes(): // the first event says nothing
	case <-ctx.Done():
		return p, errors.Annotate(ctx.Err(), "cannot probe the state")
	}
	start := time.Now()
	lap := func() time.Duration {
		now := time.Now()
		defer func() { start = now }()
		return now.Sub(start)
	}
	err := c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := c.store.GetAll(ctx, []store.Key{probeKey})
		if err != nil {
			return nil, err
		}
		op, err := writeOp(probeKey, docs[0].Rev, probeDoc{At: c.now()}, nil)
		return []store.Op{op}, err
	})
	if err != nil {
		return p, errors.Annotate(err, "cannot write a probe of the state")
	}
	p.Write = lap()
	if _, err := c.store.Get(ctx, probeKey); err != nil {
		return p, errors.Annotate(err, "cannot read a probe of the state")
	}
	p.Read = lap()
	select {
	case _, ok := <-w.Changes():
		if !ok {
			return p, errors.WithType(errors.Annotate(w.Wait(), "cannot follow changes"), ErrUnnoticed)
		}
	case <-ctx.Done():
		return p, errors.WithType(errors.Annotate(ctx.Err(), "no news of a probe of the state"), ErrUnnoticed)
	}
	p.Notice = p.Read + lap()
	return p, nil
}

// Watchers returns how many watchers there are.
func (c *Controller) Watchers() int { return int(c.hub.watchers.Load()) }
