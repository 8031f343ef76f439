package mongo

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/mgo.v2"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

var logger = loggo.GetLogger("slipway.store.mongo")

const (
	// sweepEvery and tombstoneAge say how often tombstones are looked for, and
	// how old they get: longer than any feed lags behind in practice.
	sweepEvery   = 5 * time.Minute
	tombstoneAge = 10 * time.Minute
	// closeGrace is how long Close waits for calls under way.
	closeGrace = 5 * time.Second
)

// Store is a store in a MongoDB replica set. Its methods may be called
// concurrently.
type Store struct {
	schema    store.Schema
	names     []string // of the collections
	database  string
	timeout   time.Duration
	dialer    *wire.Dialer
	session   *mgo.Session
	snapshots bool // the server reads snapshots outside transactions
	identity  string
	clock     clock
	sessions  sessions
	locks     locks
	slots     chan struct{} // one for each operation under way

	closing chan struct{}           // closed when Close begins: feeds end
	life    context.Context         // ends when calls under way have to give up
	kill    context.CancelCauseFunc // ends life
	running sync.WaitGroup          // commands and the sweeper
	calls   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	gone   bool // session is closed
}

func newStore(c Config, t target, d *wire.Dialer, session *mgo.Session) *Store {
	schema, _ := store.NewSchema(c.Collections) // Validate has checked it
	s := &Store{
		schema:   schema,
		database: t.database,
		timeout:  c.Timeout,
		dialer:   d,
		session:  session,
		locks:    locks{held: map[store.Key]*lock{}},
		closing:  make(chan struct{}),
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	slots := c.Connections
	if slots == 0 {
		slots = defaultConnections
	}
	s.slots = make(chan struct{}, slots)
	for _, coll := range c.Collections {
		s.names = append(s.names, coll.Name)
	}
	s.life, s.kill = context.WithCancelCause(context.Background())
	return s
}

// start starts the sweeper.
func (s *Store) start() { s.running.Go(s.sweep) }

// begin starts a call: it gives its context a deadline, and an end with the
// store. The caller must call the function it returns when the call ends.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, errors.Trace(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, store.ErrClosed
	}
	s.calls.Add(1)
	var cancelTimeout context.CancelFunc = func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancelTimeout = context.WithTimeout(ctx, s.timeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(store.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		cancelTimeout()
		s.calls.Done()
	}, nil
}

// Close ends the store. It gives calls under way five seconds to finish.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.closing)
	finished := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(finished)
	}()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-finished:
		s.endSessions()
	case <-grace.C:
	}
	s.kill(store.ErrClosed)
	s.dialer.Close()
	s.mu.Lock()
	s.gone = true
	s.session.Close()
	s.mu.Unlock()
	<-finished
	s.running.Wait()
	return nil
}

// newSession returns a session of the driver's. Commands whose callers have left
// may come after the end of the store, where the driver would panic.
func (s *Store) newSession() (*mgo.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, store.ErrClosed
	}
	return s.session.Copy(), nil
}

// endSessions tells the server that our sessions are no longer needed. It is a
// courtesy: the server forgets them by itself.
func (s *Store) endSessions() {
	ids := s.sessions.drain()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.life, time.Second)
	defer cancel()
	if _, err := exec[bson.Raw](ctx, s, "admin", bson.D{{Name: "endSessions", Value: ids}}); err != nil {
		logger.Debugf("cannot end sessions: %v", err)
	}
}

// sweep deletes old tombstones until the store closes.
func (s *Store) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing:
			return
		case now := <-ticker.C:
			if err := s.Sweep(s.life, now.Add(-tombstoneAge)); err != nil && s.life.Err() == nil {
				logger.Warningf("cannot delete old tombstones, trying again in %v: %v", sweepEvery, err)
			}
		}
	}
}

// Sweep deletes the tombstones of documents that were removed before a time.
// The store does so by itself, for those older than ten minutes.
func (s *Store) Sweep(ctx context.Context, before time.Time) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, name := range s.names {
		err := s.retry(ctx, func() (bool, error) {
			_, err := exec[bson.Raw](ctx, s, s.database, bson.D{
				{Name: "delete", Value: name},
				{Name: "deletes", Value: []bson.D{{
					{Name: "q", Value: bson.D{{Name: "at", Value: bson.D{{Name: "$lt", Value: before}}}}},
					{Name: "limit", Value: 0},
				}}},
				{Name: "writeConcern", Value: majority},
			})
			return lost(err), err
		})
		if err != nil {
			return errors.Annotatef(err, "cannot delete tombstones of %s", name)
		}
	}
	return nil
}
