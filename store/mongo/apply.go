package mongo

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
)

const (
	// maxData is the greatest body in bytes: MongoDB takes documents of 16 MB.
	maxData = 16<<20 - 64<<10
	// maxStatements and maxCommand bound one update command: servers take
	// 100,000 statements and messages of 48 MB.
	maxStatements = 10_000
	maxCommand    = 32 << 20
)

// Apply applies all operations or none. When ctx ends while the server is at
// work, the error is that of ctx and the batch may have been applied.
func (s *Store) Apply(ctx context.Context, ops []store.Op) error {
	if err := s.checkOps(ops); err != nil {
		return err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if len(ops) == 0 {
		return nil
	}
	release, err := s.locks.acquire(ctx, ops)
	if err != nil {
		return s.ended(ctx)
	}
	defer release()
	switch {
	case len(ops) > 1:
		err = s.transact(ctx, ops)
	case ops[0].Writes():
		err = s.writeOne(ctx, ops[0])
	default:
		err = s.assertOne(ctx, ops[0])
	}
	if err == nil || errors.Is(err, store.ErrConflict) {
		return err
	}
	return errors.Annotatef(err, "cannot apply a batch of %d operations", len(ops))
}

// checkOps refuses a malformed batch, and what MongoDB would refuse.
func (s *Store) checkOps(ops []store.Op) error {
	if err := s.schema.CheckOps(ops); err != nil {
		return err
	}
	for _, op := range ops {
		if err := s.checkKey(op.Key); err != nil {
			return err
		}
		if len(op.Data) > maxData {
			return errors.NotValidf("document %s %q of %d bytes (MongoDB keeps at most %d)", op.Collection, op.ID, len(op.Data), maxData)
		}
	}
	return nil
}

// statement is one operation as an update statement. It takes effect if it
// matches the revision that the operation relies on.
func statement(op store.Op, rev store.Rev, now time.Time) bson.D {
	id := bson.DocElem{Name: "_id", Value: op.ID}
	at := bson.D{id, {Name: "rev", Value: int64(op.Rev)}}
	gone := bson.DocElem{Name: "gone", Value: true}
	var q, u bson.D
	upsert := false
	switch op.Kind {
	case store.OpInsert: // over a tombstone, or anew; a living document is a duplicate key
		q, upsert = bson.D{id, gone, {Name: "rev", Value: bson.D{{Name: "$lt", Value: int64(rev)}}}}, true
		u = content(op, rev)
	case store.OpReplace:
		q, u = at, content(op, rev)
	case store.OpRemove:
		q = at
		u = bson.D{id, {Name: "rev", Value: int64(op.Rev) + 1}, gone, {Name: "at", Value: now}}
	case store.OpAssert: // a write, so that a change elsewhere conflicts with it
		q, u = at, bson.D{{Name: "$inc", Value: bson.D{{Name: "touched", Value: 1}}}}
	case store.OpAssertMissing:
		q, upsert = bson.D{id, gone}, true
		u = bson.D{
			{Name: "$inc", Value: bson.D{{Name: "touched", Value: 1}}},
			{Name: "$setOnInsert", Value: bson.D{{Name: "rev", Value: int64(0)}, {Name: "at", Value: now}}},
		}
	}
	st := bson.D{{Name: "q", Value: q}, {Name: "u", Value: u}}
	if upsert {
		st = append(st, bson.DocElem{Name: "upsert", Value: true})
	}
	return st
}

// content is the document that an operation writes.
func content(op store.Op, rev store.Rev) bson.D {
	data := op.Data
	if data == nil {
		data = []byte{}
	}
	d := bson.D{{Name: "_id", Value: op.ID}, {Name: "rev", Value: int64(rev)}, {Name: "data", Value: data}}
	if len(op.Index) > 0 {
		entries := make([]string, 0, len(op.Index))
		for name, value := range op.Index {
			entries = append(entries, indexEntry(name, value))
		}
		d = append(d, bson.DocElem{Name: "ix", Value: entries})
	}
	return d
}

// write is an operation with its new revision, as a statement.
type write struct {
	store.Op
	rev       store.Rev
	statement bson.D
}

// prepare makes the statements of a batch, with fresh revisions above those
// they replace.
func (s *Store) prepare(ctx context.Context, ops []store.Op) ([]write, error) {
	for _, op := range ops {
		s.clock.observe(op.Rev)
	}
	revs, err := s.clock.next(len(ops), func() (int64, error) { return s.extend(ctx) })
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := make([]write, len(ops))
	for i, op := range ops {
		out[i] = write{op, revs[i], statement(op, revs[i], now)}
	}
	return out, nil
}

// assertOne checks a batch that is one assertion.
func (s *Store) assertOne(ctx context.Context, op store.Op) error {
	doc, err := s.get(ctx, op.Key)
	if err != nil {
		return err
	}
	if doc.Rev != op.Rev { // zero, for a document that must be missing
		return store.ErrConflict
	}
	return nil
}

// writeOne applies a batch that is one write: a conditional update, which the
// server runs once however often it is sent.
func (s *Store) writeOne(ctx context.Context, op store.Op) error {
	for {
		ws, err := s.prepare(ctx, []store.Op{op})
		if err != nil {
			return err
		}
		ss := s.sessions.get()
		var r *reply[bson.Raw]
		err = s.retry(ctx, func() (bool, error) {
			r, err = exec[bson.Raw](ctx, s, s.database, bson.D{
				{Name: "update", Value: op.Collection},
				{Name: "updates", Value: statements(ws)},
				{Name: "lsid", Value: ss.id},
				{Name: "txnNumber", Value: ss.number},
				{Name: "writeConcern", Value: majority},
			})
			return lost(err) || codeOf(err) == codeWriteConflict, err
		})
		if err != nil && !isDuplicate(codeOf(err)) {
			return err // the session may still be in use by the command
		}
		s.sessions.put(ss)
		again, err := s.judge(ctx, ws, r)
		if !again {
			return err
		}
	}
}

// isDuplicate reports whether an error code means that an id exists already.
func isDuplicate(code int) bool { return code == codeDuplicateKey || code == codeDuplicateKeyUpdate }

// judge says what the answer to an update command means. It asks for another
// try when an insert met a tombstone of a greater revision: the clock then
// knows it.
func (s *Store) judge(ctx context.Context, ws []write, r *reply[bson.Raw]) (again bool, err error) {
	switch {
	case len(r.WriteErrors) > 0:
		if we := r.WriteErrors[0]; !isDuplicate(we.Code) {
			return false, &serverError{code: we.Code, message: we.Message}
		}
	case isDuplicate(r.Code):
	case r.N != len(ws):
		return false, store.ErrConflict
	default:
		return false, nil
	}
	for _, w := range ws {
		if w.Kind != store.OpInsert {
			continue
		}
		higher, err := s.tombstone(ctx, w)
		if err != nil {
			return false, err
		}
		again = again || higher
	}
	if again {
		return true, nil
	}
	return false, store.ErrConflict
}

// tombstone looks for a tombstone of a greater revision than an insert has, and
// sets the clock by it.
func (s *Store) tombstone(ctx context.Context, w write) (ahead bool, err error) {
	err = s.retry(ctx, func() (bool, error) {
		r, err := exec[row](ctx, s, s.database, bson.D{
			{Name: "find", Value: w.Collection},
			{Name: "filter", Value: bson.D{{Name: "_id", Value: w.ID}, {Name: "gone", Value: true}}},
			{Name: "limit", Value: 1},
			{Name: "singleBatch", Value: true},
		})
		if err != nil {
			return lost(err), err
		}
		for _, t := range r.Cursor.FirstBatch {
			s.clock.observe(store.Rev(t.Rev))
			ahead = store.Rev(t.Rev) >= w.rev
		}
		return false, nil
	})
	return ahead, err
}

// statements returns what the update command takes.
func statements(ws []write) []bson.D {
	out := make([]bson.D, len(ws))
	for i, w := range ws {
		out[i] = w.statement
	}
	return out
}

// runs splits a batch into update commands, each on one collection. The order
// of operations is kept: it is the order of their changes.
func runs(ws []write) [][]write {
	var out [][]write
	start, size := 0, 0
	for i, w := range ws {
		n := len(w.Data) + len(w.ID) + 512
		if i > start && (ws[start].Collection != w.Collection || i-start == maxStatements || size+n > maxCommand) {
			out = append(out, ws[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(out, ws[start:])
}

// within are the fields of a command in a transaction.
func within(ss *serverSession, first bool) bson.D {
	d := bson.D{{Name: "lsid", Value: ss.id}, {Name: "txnNumber", Value: ss.number}, {Name: "autocommit", Value: false}}
	if first {
		d = append(d, bson.DocElem{Name: "startTransaction", Value: true},
			bson.DocElem{Name: "readConcern", Value: bson.D{{Name: "level", Value: "snapshot"}}})
	}
	return d
}

// ending is the command that ends a transaction.
func ending(name string, ss *serverSession) bson.D {
	return append(append(bson.D{{Name: name, Value: 1}}, within(ss, false)...), bson.DocElem{Name: "writeConcern", Value: majority})
}

// transact applies a batch as a transaction, anew after each failure that left
// nothing behind.
func (s *Store) transact(ctx context.Context, ops []store.Op) error {
	for {
		ws, err := s.prepare(ctx, ops)
		if err != nil {
			return err
		}
		met := false
		err = s.retry(ctx, func() (bool, error) {
			ss := s.sessions.get()
			again, tombstone, err := s.attempt(ctx, ss, ws)
			met = tombstone
			if ctx.Err() == nil {
				s.sessions.put(ss) // a later transaction ends what this one left open
			}
			return again, err
		})
		if !met {
			return err
		}
	}
}

// attempt runs a transaction once. again says that it has had no effect and
// may be run anew; tombstone, that it may with greater revisions.
func (s *Store) attempt(ctx context.Context, ss *serverSession, ws []write) (again, tombstone bool, err error) {
	for i, run := range runs(ws) {
		cmd := append(bson.D{{Name: "update", Value: run[0].Collection}, {Name: "updates", Value: statements(run)}}, within(ss, i == 0)...)
		r, err := exec[bson.Raw](ctx, s, s.database, cmd)
		if err != nil && !isDuplicate(codeOf(err)) {
			s.abort(ss)
			return lost(err) || has(err, labelTransient), false, err
		}
		if tombstone, err = s.judge(ctx, run, r); err != nil || tombstone {
			if len(r.WriteErrors) == 0 && r.Code == 0 { // else the server has ended it
				s.abort(ss)
			}
			return false, tombstone, err
		}
	}
	err = s.retry(ctx, func() (bool, error) { // committing again is harmless
		_, err := exec[bson.Raw](ctx, s, "admin", ending("commitTransaction", ss))
		if has(err, labelTransient) {
			return false, err
		}
		return lost(err) || has(err, labelUnknown), err
	})
	if err != nil && !has(err, labelTransient) { // it may be open still, and hold up others
		s.abort(ss)
	}
	return has(err, labelTransient), false, err
}

// abort ends a transaction early, so that others need not wait for what it has
// written. The answer does not matter: a transaction without a commit ends in
// any case.
func (s *Store) abort(ss *serverSession) {
	ctx, cancel := context.WithTimeout(s.life, 2*time.Second)
	defer cancel()
	if _, err := exec[bson.Raw](ctx, s, "admin", ending("abortTransaction", ss)); err != nil {
		logger.Debugf("cannot abort a transaction: %v", err)
	}
}
