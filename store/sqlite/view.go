package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/store"
)

// lookEvery is how often a view looks for changes: SQLite tells other processes
// of none.
const lookEvery = 100 * time.Millisecond

// View reads a store that another process may have open, and writes nothing.
// Make it with OpenView.
type View struct{ store *Store }

// OpenView opens the store in c.Dir for reading beside its owner. The caller
// closes it. It returns an error satisfying errors.NotFound if there is no
// store, and else those of Open, but for ErrInUse.
func OpenView(ctx context.Context, c Config) (*View, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, errors.Trace(err)
	}
	s := &Store{config: c, bell: newBell(), cache: newCache(0)}
	if s.schema, err = store.NewSchema(c.Collections); err != nil {
		return nil, errors.Trace(err)
	}
	if err := s.openView(ctx); err != nil {
		s.release()
		return nil, errors.Annotatef(err, "cannot read store in %s", c.Dir)
	}
	return &View{s}, nil
}

func (s *Store) openView(ctx context.Context) error {
	path := s.config.file()
	found, err := exists(path)
	if err == nil && !found {
		err = errors.NotFoundf("store")
	}
	if err != nil {
		return errors.Trace(err)
	}
	if s.identity, err = inspect(ctx, path); err != nil {
		return errors.Trace(err)
	}
	if err := s.openReaders(ctx, path); err != nil {
		return errors.Trace(err)
	}
	if err := s.readNumbers(ctx, s.conns[0]); err != nil {
		return errors.Trace(err)
	}
	if err := s.look(ctx); err != nil {
		return errors.Trace(err)
	}
	s.tomb.Go(s.lookAgain)
	return nil
}

// look brings up to date which changes there are.
func (s *Store) look(ctx context.Context) error {
	var oldest, seq int64
	err := s.readDB.QueryRowContext(ctx, newestQuery).Scan(&oldest, &seq)
	if err != nil {
		return errors.Trace(err)
	}
	s.oldest.Store(oldest)
	if s.seq.Swap(seq) != seq {
		s.bell.ring()
	}
	return nil
}

// lookAgain looks again and again until the view is closed.
func (s *Store) lookAgain() error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.tomb.Dying():
			return tomb.ErrDying
		case <-ticker.C:
		}
		if err := s.look(s.tomb.Context(nil)); err != nil && s.tomb.Alive() && !errors.Is(err, sql.ErrConnDone) {
			logger.Warningf("cannot look for changes, trying again in %v: %v", lookEvery, err)
		}
	}
}

// GetAll is that of store.Store.
func (v *View) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	return v.store.GetAll(ctx, keys)
}

// List is that of store.Store.
func (v *View) List(ctx context.Context, q store.Query) (store.Page, error) {
	return v.store.List(ctx, q)
}

// Changes is that of store.Store. A change is told within a tenth of a second.
func (v *View) Changes(ctx context.Context, after store.Position) (store.Feed, error) {
	return v.store.Changes(ctx, after)
}

// Fence waits until no process has the store open, and keeps it so until the view
// is closed. All that was ever written can be read when it returns.
func (v *View) Fence(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		f, err := lock(v.store.config.lockFile())
		if err == nil {
			v.store.lock = f
			return errors.Trace(v.store.look(ctx))
		}
		if !errors.Is(err, ErrInUse) {
			return errors.Trace(err)
		}
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case <-ticker.C:
		}
	}
}

// Close ends the view.
func (v *View) Close() error { return v.store.Close() }
