package sqlite

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// feedLimit is how many changes Next returns at most.
const feedLimit = 1000

// bell wakes everybody who waits for a commit.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// newBell returns a bell that has not rung.
func newBell() *bell { return &bell{rung: make(chan struct{})} }

// next returns a channel that is closed at the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

// ring wakes those who wait.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// position returns the position of a change: the store's identity and the
// change's number.
func (s *Store) position(number int64) store.Position {
	return store.Position(s.identity + "." + strconv.FormatInt(number, 10))
}

// number returns the number of the change at a position.
func (s *Store) number(p store.Position) (int64, error) {
	text, ours := strings.CutPrefix(string(p), s.identity+".")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ours || err != nil || n < 0 {
		return 0, errors.NotValidf("position %q, not of this store,", p)
	}
	return n, nil
}

// feed reads the changes after a number.
type feed struct {
	store *Store
	after int64
	once  sync.Once
	done  chan struct{}
}

var _ store.Feed = (*feed)(nil)

// Changes implements store.Store. A position beyond the newest change, as after
// the file was brought back from a backup, is lost history too.
func (s *Store) Changes(ctx context.Context, after store.Position) (store.Feed, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	f := &feed{store: s, after: s.seq.Load(), done: make(chan struct{})}
	if after == "" {
		return f, nil
	}
	n, err := s.number(after)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if n < s.oldest.Load()-1 || n > f.after {
		return nil, errors.Trace(store.ErrHistoryLost)
	}
	f.after = n
	return f, nil
}

// Next implements store.Feed. It returns at most 1,000 changes.
func (f *feed) Next(ctx context.Context) ([]store.Change, error) {
	for {
		select {
		case <-f.done:
			return nil, errors.Trace(store.ErrClosed)
		default:
		}
		if err := f.store.check(ctx); err != nil {
			return nil, err
		}
		rung := f.store.bell.next() // before looking, so that no commit is missed
		if f.store.seq.Load() > f.after {
			return f.read(ctx)
		}
		select {
		case <-rung:
		case <-ctx.Done():
		case <-f.done:
		case <-f.store.tomb.Dying():
		}
	}
}

// read reads the changes that are there. Numbers have no gaps, so that a gap
// means that changes were trimmed.
func (f *feed) read(ctx context.Context) ([]store.Change, error) {
	r, err := f.store.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { f.store.free <- r }()
	rows, err := r.changes.QueryContext(context.Background(), f.after, feedLimit)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read changes")
	}
	defer rows.Close()
	var changes []store.Change
	number := f.after
	for rows.Next() {
		var c store.Change
		var at, collection int64
		if err := rows.Scan(&at, &collection, &c.ID, &c.Rev, &c.Removed); err != nil {
			return nil, errors.Annotate(err, "cannot read changes")
		}
		if number++; at != number {
			return nil, errors.Trace(store.ErrHistoryLost)
		}
		c.Position, c.Collection = f.store.position(at), f.store.names[collection]
		changes = append(changes, c)
	}
	if err := rows.Err(); err != nil {
		return nil, errors.Annotate(err, "cannot read changes")
	}
	f.after = number
	return changes, nil
}

// Close implements store.Feed.
func (f *feed) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}
