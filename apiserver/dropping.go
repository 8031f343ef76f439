package apiserver

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
)

// dropRetry is the pause after a failure to tell or to hear whose connections
// are to end.
const dropRetry = time.Second

// dropper ends connections to this server, and remembers whose for the others.
type dropper struct {
	conns  *connections
	reader *state.DropReader // of what others tell
	wake   chan struct{}     // has room for one

	mu      sync.Mutex
	pending []state.Drop
}

// newDropper returns the dropper of a server that has no connections yet: what was
// told before concerns none of them.
func newDropper(ctx context.Context, c *state.Controller, server string, conns *connections) (*dropper, error) {
	r, err := c.NewDropReader(ctx, server)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &dropper{conns: conns, reader: r, wake: make(chan struct{}, 1)}, nil
}

// DropUser implements common.Sessions.
func (d *dropper) DropUser(t tag.Tag) { d.DropAgent("", t) }

// DropAgent implements common.Sessions.
func (d *dropper) DropAgent(modelUUID string, t tag.Tag) {
	d.conns.DropAgent(modelUUID, t)
	d.put([]state.Drop{{ModelUUID: modelUUID, Tag: t.String()}})
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// put keeps drops to be told to the others.
func (d *dropper) put(drops []state.Drop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, drops...)
}

// take returns what is to be told.
func (d *dropper) take() []state.Drop {
	d.mu.Lock()
	defer d.mu.Unlock()
	drops := d.pending
	d.pending = nil
	return drops
}

// sessions returns what ends connections: also those to other servers, if there are
// any.
func (s *Server) sessions() common.Sessions {
	if s.dropper == nil {
		return s.conns
	}
	return s.dropper
}

// shareDrops tells the other servers of a site whose connections are to end, and
// ends those that they tell of, until the server stops.
func (s *Server) shareDrops() error {
	c := s.cfg.Controller
	w := c.WatchDrops() // its first event is for what came since the reader was made
	defer w.Kill()
	changes := w.Changes()
	var again <-chan time.Time
	look := true
	for {
		select {
		case <-s.tomb.Dying():
			ctx, cancel := context.WithTimeout(context.Background(), unshareTimeout)
			defer cancel()
			return s.tellDrops(ctx) // what was asked for last
		case <-s.dropper.wake:
		case <-again:
		case _, ok := <-changes:
			if look = true; !ok { // the state has been closed, and the server is to follow
				changes = nil
			}
		}
		again = nil
		ctx, cancel := context.WithTimeout(s.tomb.Context(nil), shareTimeout)
		err := s.tellDrops(ctx)
		if err == nil && look {
			err = s.hearDrops(ctx)
			look = err != nil
		}
		cancel()
		if err != nil && s.tomb.Alive() {
			logger.Warningf("trying again in %v: %v", dropRetry, err)
			again = time.After(dropRetry)
		}
	}
}

// tellDrops tells the other servers what waits to be told.
func (s *Server) tellDrops(ctx context.Context) error {
	drops := s.dropper.take()
	if len(drops) == 0 {
		return nil
	}
	if err := s.cfg.Controller.AnnounceDrops(ctx, s.cfg.ServerID, drops); err != nil {
		s.dropper.put(drops)
		return errors.Trace(err)
	}
	return nil
}

// hearDrops ends the connections that other servers have told of.
func (s *Server) hearDrops(ctx context.Context) error {
	drops, err := s.dropper.reader.Next(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	for _, d := range drops {
		t, err := tag.ParseTag(d.Tag)
		if err != nil {
			logger.Warningf("another server names %q, whose connections are to end: %v", d.Tag, err)
			continue
		}
		logger.Debugf("ending the connections of %s, as another server says", d)
		s.conns.DropAgent(d.ModelUUID, t)
	}
	return nil
}
