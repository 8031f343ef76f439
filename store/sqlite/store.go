package sqlite

import (
	"context"
	"database/sql"
	stderrors "errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/store"
)

var logger = loggo.GetLogger("slipway.store.sqlite")

// newestQuery finds the numbers of the oldest change and of the newest.
const newestQuery = "SELECT coalesce(min(pos), 1), coalesce(max(pos), 0) FROM changes"

// queueLength is how many batches may wait; further callers wait to get in.
const queueLength = 1024

// Store keeps documents in one SQLite file. Make it with Open.
type Store struct {
	tomb     tomb.Tomb // the writer
	config   Config
	schema   store.Schema
	identity string // random, made with the file; begins every position

	numbers map[string]int64 // collection name to number
	names   map[int64]string

	queue  chan *batch
	cache  *cache
	bell   *bell        // rings after each commit that changed something
	seq    atomic.Int64 // number of the newest committed change
	oldest atomic.Int64 // number of the oldest change that is kept
	free   chan *reader // those that are not at work

	closeOnce sync.Once
	closeErr  error
	lock      *os.File
	writeDB   *sql.DB
	writeConn *conn
	readDB    *sql.DB
	conns     []*conn // of the readers
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a data directory, and makes it if there is none. The
// caller closes it.
//
// Its error is one line that says what to do next, and satisfies errors.Is for
// ErrInUse, ErrForeign, ErrDamaged or ErrNewer when it is one of these; the
// file is then as it was before.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, errors.Trace(err)
	}
	s := &Store{config: c, queue: make(chan *batch, queueLength), bell: newBell(), cache: newCache(max(c.CacheBytes, 0))}
	if s.schema, err = store.NewSchema(c.Collections); err != nil {
		return nil, errors.Trace(err)
	}
	if err := s.open(ctx); err != nil {
		s.release()
		return nil, errors.Annotatef(err, "cannot open store in %s", c.Dir)
	}
	return s, nil
}

// open does the steps of Open that leave something to release.
func (s *Store) open(ctx context.Context) error {
	if err := makeDir(s.config.Dir); err != nil {
		return errors.Trace(err)
	}
	path := s.config.file()
	if _, err := exists(path); err != nil { // before anything is written
		return errors.Trace(err)
	}
	var err error
	if s.lock, err = lock(s.config.lockFile()); err != nil {
		return errors.Trace(err)
	}
	found, err := exists(path)
	if err != nil {
		return errors.Trace(err)
	}
	if !found {
		if err := create(ctx, path); err != nil {
			return errors.Annotate(explain(err), "cannot make the file")
		}
		logger.Infof("made a new store in %s", s.config.Dir)
	}
	if s.identity, err = inspect(ctx, path); err != nil {
		return errors.Trace(err)
	}
	w, err := s.openWriter(ctx, path)
	if err != nil {
		return errors.Trace(explain(err))
	}
	if err := s.openReaders(ctx, path); err != nil {
		return errors.Trace(err)
	}
	s.tomb.Go(func() error { return w.loop(&s.tomb) })
	return nil
}

// openWriter opens the writing connection and reads what the writer knows.
func (s *Store) openWriter(ctx context.Context, path string) (*writer, error) {
	pragmas := []string{
		"journal_mode(WAL)",
		"synchronous(FULL)", // a commit waits for the disk
		"cache_size(-65536)",
		"wal_autocheckpoint(4000)",      // pages, 16 MB
		"journal_size_limit(134217728)", // what the log shrinks to after it grew
	}
	if s.config.MaxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", max(s.config.MaxBytes/4096, 1)))
	}
	var err error
	if s.writeDB, err = sql.Open("sqlite", dsn(path, "rw", pragmas...)); err != nil {
		return nil, errors.Trace(err)
	}
	s.writeDB.SetMaxOpenConns(1)
	if s.writeConn, err = connect(ctx, s.writeDB); err != nil {
		return nil, errors.Trace(err)
	}
	if err := s.declare(ctx, s.writeConn); err != nil {
		return nil, errors.Trace(err)
	}
	var oldest, seq int64
	err = s.writeConn.QueryRowContext(ctx, newestQuery).Scan(&oldest, &seq)
	if err != nil {
		return nil, errors.Trace(err)
	}
	s.oldest.Store(oldest)
	s.seq.Store(seq)
	return newWriter(ctx, s)
}

// declare gives each declared collection a number, for good.
func (s *Store) declare(ctx context.Context, conn *conn) error {
	for _, c := range s.config.Collections {
		if _, err := conn.ExecContext(ctx, "INSERT OR IGNORE INTO collections (name) VALUES (?)", c.Name); err != nil {
			return errors.Trace(err)
		}
	}
	return s.readNumbers(ctx, conn)
}

// readNumbers reads the collections' numbers.
func (s *Store) readNumbers(ctx context.Context, conn *conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT num, name FROM collections")
	if err != nil {
		return errors.Trace(err)
	}
	defer rows.Close()
	s.numbers, s.names = make(map[string]int64), make(map[int64]string)
	for rows.Next() {
		var number int64
		var name string
		if err := rows.Scan(&number, &name); err != nil {
			return errors.Trace(err)
		}
		s.numbers[name], s.names[number] = number, name
	}
	return errors.Trace(rows.Err())
}

// openReaders opens the reading connections.
func (s *Store) openReaders(ctx context.Context, path string) error {
	var err error
	if s.readDB, err = sql.Open("sqlite", dsn(path, "ro", "cache_size(-8192)")); err != nil {
		return errors.Trace(err)
	}
	s.readDB.SetMaxIdleConns(s.config.Readers)
	s.free = make(chan *reader, s.config.Readers)
	for range s.config.Readers {
		c, err := connect(ctx, s.readDB)
		if err != nil {
			return errors.Trace(err)
		}
		s.conns = append(s.conns, c)
		r, err := newReader(ctx, c)
		if err != nil {
			return errors.Trace(err)
		}
		s.free <- r
	}
	return nil
}

// Apply implements store.Store. When it returns the context's error, or
// store.ErrClosed, the batch has not been applied: a batch that the writer has
// begun is waited for.
func (s *Store) Apply(ctx context.Context, ops []store.Op) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := s.schema.CheckOps(ops); err != nil {
		return errors.Trace(err)
	}
	if len(ops) == 0 {
		return nil
	}
	b := &batch{ops: ops, done: make(chan struct{})}
	select {
	case s.queue <- b:
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case <-s.tomb.Dying():
		return errors.Trace(store.ErrClosed)
	}
	var reason error
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		reason = ctx.Err()
	case <-s.tomb.Dead():
		reason = store.ErrClosed
	}
	if b.claim() { // the writer will pass it over
		return errors.Trace(reason)
	}
	<-b.done
	return b.err
}

// check returns why a call must not begin.
func (s *Store) check(ctx context.Context) error {
	select {
	case <-s.tomb.Dying():
		return errors.Trace(store.ErrClosed)
	default:
		return errors.Trace(ctx.Err())
	}
}

// Close implements store.Store. It lets calls under way finish.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.tomb.Kill(nil)
		err := s.tomb.Wait()
		for range cap(s.free) {
			<-s.free // each comes back when its call has finished
		}
		s.closeErr = errors.Annotatef(stderrors.Join(err, s.release()), "cannot close store in %s", s.config.Dir)
	})
	return s.closeErr
}

// release closes what has been opened. The writing connection goes last: it
// brings the log into the file.
func (s *Store) release() error {
	var errs []error
	for _, c := range s.conns {
		errs = append(errs, c.Close())
	}
	if s.readDB != nil {
		errs = append(errs, s.readDB.Close())
	}
	if s.writeConn != nil {
		errs = append(errs, s.writeConn.Close())
	}
	if s.writeDB != nil {
		errs = append(errs, s.writeDB.Close())
	}
	if s.lock != nil {
		errs = append(errs, unlock(s.lock))
	}
	return stderrors.Join(errs...)
}
