package sqlite

import (
	"context"
	"database/sql"
	"net/url"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// apply checks a whole batch and then writes it, inside the transaction under
// way. A conflict leaves the transaction as it was; an error makes it useless.
func (w *writer) apply(ops []store.Op) (conflict, err error) {
	w.found = w.found[:0]
	for _, op := range ops {
		c := current{}
		err := w.find.QueryRowContext(context.Background(), w.store.numbers[op.Collection], op.ID).Scan(&c.num, &c.rev, &c.indexed)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, errors.Trace(err)
		}
		if c.rev != op.Rev { // an insertion's and an assertion's that it is missing are 0
			return errors.Annotatef(store.ErrConflict, "cannot %s %s %q", op.Kind, op.Collection, op.ID), nil
		}
		w.found = append(w.found, c)
	}
	for i, op := range ops {
		if !op.Writes() {
			continue
		}
		if err := w.writeOp(op, w.found[i]); err != nil {
			return nil, errors.Annotatef(err, "cannot %s %s %q", op.Kind, op.Collection, op.ID)
		}
	}
	return nil, nil
}

// writeOp makes one change, which takes the next number of the sequence.
func (w *writer) writeOp(op store.Op, c current) error {
	w.seq++
	rev, removed := w.seq, 0
	collection := w.store.numbers[op.Collection]
	indexed, data := encodeIndex(op.Index), op.Data
	if data == nil {
		data = []byte{} // nil would be NULL
	}
	switch op.Kind {
	case store.OpInsert:
		result, err := w.insert.ExecContext(context.Background(), collection, op.ID, rev, indexed, data)
		if err != nil {
			return errors.Trace(err)
		}
		if c.num, err = result.LastInsertId(); err != nil {
			return errors.Trace(err)
		}
	case store.OpReplace:
		if _, err := w.replace.ExecContext(context.Background(), rev, indexed, data, c.num); err != nil {
			return errors.Trace(err)
		}
	case store.OpRemove:
		indexed = ""
		rev, removed = int64(op.Rev)+1, 1
		if _, err := w.remove.ExecContext(context.Background(), c.num); err != nil {
			return errors.Trace(err)
		}
	}
	if indexed != c.indexed {
		if err := w.reindex(collection, op, c, indexed != ""); err != nil {
			return errors.Trace(err)
		}
	}
	now := written{key: op.Key}
	if removed == 0 {
		now.rev, now.data = store.Rev(rev), data
	}
	w.written = append(w.written, now)
	_, err := w.addChange.ExecContext(context.Background(), w.seq, collection, op.ID, rev, removed)
	return errors.Trace(err)
}

// reindex brings the index entries of a document up to date.
func (w *writer) reindex(collection int64, op store.Op, c current, add bool) error {
	old, err := url.ParseQuery(c.indexed)
	if err != nil {
		return errors.Annotate(err, "cannot read index values")
	}
	for name := range old {
		if _, err := w.dropEntry.ExecContext(context.Background(), collection, name, old.Get(name), op.ID); err != nil {
			return errors.Trace(err)
		}
	}
	if !add {
		return nil
	}
	for name, value := range op.Index {
		if _, err := w.addEntry.ExecContext(context.Background(), collection, name, value, op.ID, c.num); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// encodeIndex writes index values as one text, the same for equal values.
func encodeIndex(index map[string]string) string {
	if len(index) == 0 {
		return ""
	}
	values := make(url.Values, len(index))
	for name, value := range index {
		values.Set(name, value)
	}
	return values.Encode()
}
