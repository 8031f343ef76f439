package sqlite

import (
	"context"
	"database/sql"
	"runtime"
	"sync/atomic"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"
	codes "modernc.org/sqlite/lib"

	"github.com/slipway-project/slipway/store"
)

// Bounds of one group, so that the first caller in it does not wait too long.
const (
	groupBatches = 1024
	groupBytes   = 16 << 20
)

// trimStep is how many old changes at least are kept beyond Config.History
// before some are deleted, and how many are deleted in one commit besides as
// many as it adds.
const trimStep = 1000

// batch is a batch that waits for the writer, and its outcome.
type batch struct {
	ops     []store.Op
	claimed atomic.Bool
	done    chan struct{} // closed when err is set
	err     error
}

// claim decides between the writer, which begins with the batch, and its
// caller, who gives up waiting: the first to call it gets true.
func (b *batch) claim() bool { return b.claimed.CompareAndSwap(false, true) }

// size returns about how many bytes the batch writes.
func (b *batch) size() int {
	n := 0
	for _, op := range b.ops {
		n += len(op.Data)
	}
	return n
}

// writer owns the writing connection. Its calls carry no caller's context:
// they act for many callers, and one that has begun is brought to its end.
type writer struct {
	store *Store

	begin, commit, rollback *sql.Stmt
	find                    *sql.Stmt
	insert, replace, remove *sql.Stmt
	addEntry, dropEntry     *sql.Stmt
	addChange, trim         *sql.Stmt
	group                   []*batch
	seq                     int64 // with the writes of the transaction under way
	oldest                  int64
	failing                 bool      // the last commit was refused
	found                   []current // of the batch under way
	written                 []written // by the transaction under way
}

// current is a document as the writer finds it.
type current struct {
	num     int64
	rev     store.Rev
	indexed string
}

// newWriter prepares the statements.
func newWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{store: s}
	err := s.writeConn.prepare(ctx, []statement{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.find, "SELECT num, rev, indexed FROM docs WHERE collection = ? AND id = ?"},
		{&w.insert, "INSERT INTO docs (collection, id, rev, indexed, data) VALUES (?, ?, ?, ?, ?)"},
		{&w.replace, "UPDATE docs SET rev = ?, indexed = ?, data = ? WHERE num = ?"},
		{&w.remove, "DELETE FROM docs WHERE num = ?"},
		{&w.addEntry, "INSERT INTO entries (collection, name, value, id, doc) VALUES (?, ?, ?, ?, ?)"},
		{&w.dropEntry, "DELETE FROM entries WHERE collection = ? AND name = ? AND value = ? AND id = ?"},
		{&w.addChange, "INSERT INTO changes (pos, collection, id, rev, removed) VALUES (?, ?, ?, ?, ?)"},
		{&w.trim, "DELETE FROM changes WHERE pos < ?"},
	})
	return w, errors.Trace(err)
}

// loop writes until the store is closed.
func (w *writer) loop(t *tomb.Tomb) error {
	for {
		select {
		case <-t.Dying():
			return tomb.ErrDying
		case b := <-w.store.queue:
			w.gather(b)
		}
		if len(w.group) == 0 {
			continue
		}
		w.write(w.group)
		for _, b := range w.group {
			close(b.done)
		}
		clear(w.group) // lets the documents go
	}
}

// gather makes a group of first and all batches that wait. It lets other
// goroutines run so long as that brings further batches: callers that the last
// commit has released come back together, and are worth one commit, not two.
func (w *writer) gather(first *batch) {
	w.group = w.group[:0]
	bytes := 0
	add := func(b *batch) {
		if b.claim() {
			w.group = append(w.group, b)
			bytes += b.size()
		}
	}
	add(first)
	for len(w.group) < groupBatches && bytes < groupBytes {
		select {
		case b := <-w.store.queue:
			add(b)
			continue
		default:
		}
		runtime.Gosched()
		select {
		case b := <-w.store.queue:
			add(b)
		default:
			return
		}
	}
}

// write commits a group and sets each batch's outcome. When the group cannot be
// committed, each batch is tried alone, so that one that is too large for the
// disk's rest fails alone.
func (w *writer) write(group []*batch) {
	err := w.transact(group)
	if err == nil {
		if w.failing {
			w.failing = false
			logger.Infof("the store can be written again")
		}
		return
	}
	if len(group) == 1 {
		group[0].err = errors.Annotate(explain(err), "cannot apply batch")
		if !w.failing { // once, not for each of the callers that try again
			w.failing = true
			logger.Errorf("cannot write to the store: %v", err)
		}
		return
	}
	for i := range group {
		w.write(group[i : i+1])
	}
}

// transact applies a group in one transaction. It sets each batch's error if
// it is the batch's own, and returns one that failed them all.
func (w *writer) transact(group []*batch) error {
	w.seq, w.oldest = w.store.seq.Load(), w.store.oldest.Load()
	before := w.seq
	defer func() { clear(w.written); w.written = w.written[:0] }()
	_, err := w.begin.ExecContext(context.Background())
	if err == nil {
		err = w.applyAll(group)
	}
	if err == nil && w.seq > before {
		err = w.trimChanges(w.seq - before)
	}
	if err == nil {
		w.store.cache.begin(w.written)
		_, err = w.commit.ExecContext(context.Background())
		w.store.cache.end(w.written, err == nil)
	}
	if err != nil {
		w.rollback.ExecContext(context.Background()) // fails if SQLite has rolled back by itself
		return errors.Trace(err)
	}
	if w.seq > before {
		w.store.oldest.Store(w.oldest)
		w.store.seq.Store(w.seq)
		w.store.bell.ring()
	}
	return nil
}

// applyAll applies the batches one after the other.
func (w *writer) applyAll(group []*batch) error {
	for _, b := range group {
		conflict, err := w.apply(b.ops)
		if err != nil {
			return errors.Trace(err)
		}
		b.err = conflict
	}
	return nil
}

// trimChanges deletes changes that need not be kept, at most as many as were
// added and one step more.
func (w *writer) trimChanges(added int64) error {
	first := w.seq - int64(w.store.config.History) + 1 // that has to be kept
	if first-w.oldest < min(trimStep, int64(w.store.config.History)) {
		return nil
	}
	first = min(first, w.oldest+added+trimStep)
	if _, err := w.trim.ExecContext(context.Background(), first); err != nil {
		return errors.Trace(err)
	}
	w.oldest = first
	return nil
}

// explain gives SQLite's errors their kinds.
func explain(err error) error {
	if code(err) == codes.SQLITE_FULL {
		return errors.Trace(ErrFull)
	}
	return err
}
