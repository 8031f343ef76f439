package storecrash

import (
	"context"
	"fmt"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Report is what the parent knows of one writer: the numbers of the newest
// batch it tried and the newest one that was acknowledged.
type Report struct {
	Tried, Acked int
}

// Reports are those of all writers.
type Reports [writers]Report

// Mark says how far a store has been checked. The zero value is that of a store which
// never was.
type Mark struct {
	Position store.Position // the feed has been checked up to here
	Last     [writers]int   // newest batch of each writer at that time
}

// Checker follows one store over its crashes.
type Checker struct {
	Dir  string
	Mark // of the last check; give it to another Checker to go on
}

// Check opens the store after a crash and compares it with what its writers
// reported. It returns an error that says what is lost, half or out of order.
func (c *Checker) Check(ctx context.Context, reports Reports) error {
	s, err := Open(ctx, c.Dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.Close()
	var newest [writers]int
	for w, r := range reports {
		n, err := checkDocuments(ctx, s, w)
		if err != nil {
			return errors.Trace(err)
		}
		if n < max(r.Acked, c.Last[w]) {
			return errors.Errorf("writer %d: batch %d was acknowledged, but the store is at %d", w, max(r.Acked, c.Last[w]), n)
		}
		if n > max(r.Tried, c.Last[w]) {
			return errors.Errorf("writer %d: batch %d is in the store, but only %d was tried", w, n, r.Tried)
		}
		newest[w] = n
	}
	changes, err := c.changes(ctx, s)
	if err != nil {
		return errors.Trace(err)
	}
	if c.Position != "" {
		if err := checkChanges(changes, c.Last, newest); err != nil {
			return errors.Trace(err)
		}
	}
	c.Position, c.Last = changes[len(changes)-1].Position, newest
	return errors.Trace(s.Close())
}

// checkDocuments checks that a writer's documents are those of whole batches,
// by id and by index, and returns the number of the newest batch.
func checkDocuments(ctx context.Context, s store.Store, writer int) (int, error) {
	page, err := s.List(ctx, store.Query{Collection: "docs", Index: "writer", Value: strconv.Itoa(writer)})
	if err != nil {
		return 0, errors.Trace(err)
	}
	n := 0
	if len(page.Docs) > 0 {
		if n, err = strconv.Atoi(string(page.Docs[0].Data)); err != nil {
			return 0, errors.Trace(err)
		}
	}
	want := states
	if n == 0 {
		want = 0
	}
	if len(page.Docs) != want {
		return 0, errors.Errorf("writer %d: %d state documents, want %d", writer, len(page.Docs), want)
	}
	for _, doc := range page.Docs {
		if string(doc.Data) != strconv.Itoa(n) {
			return 0, errors.Errorf("writer %d: half a batch: %s is at %s beside %d", writer, doc.ID, doc.Data, n)
		}
	}
	page, err = s.List(ctx, store.Query{Collection: "docs", Prefix: fmt.Sprintf("log-%d-", writer)})
	if err != nil {
		return 0, errors.Trace(err)
	}
	first := max(1, n-logLength+1)
	if len(page.Docs) != n-first+1 {
		return 0, errors.Errorf("writer %d: %d log documents at batch %d, want %d", writer, len(page.Docs), n, n-first+1)
	}
	for i, doc := range page.Docs {
		if doc.Key != logKey(writer, first+i) {
			return 0, errors.Errorf("writer %d: log document %s at batch %d, want %s", writer, doc.ID, n, logKey(writer, first+i).ID)
		}
	}
	return n, nil
}

// changes returns the changes since the last check. The last one is of a
// document that is written here to find the end.
func (c *Checker) changes(ctx context.Context, s store.Store) ([]store.Change, error) {
	feed, err := s.Changes(ctx, c.Position)
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer feed.Close()
	marker := store.Key{Collection: "docs", ID: "marker"}
	docs, err := s.GetAll(ctx, []store.Key{marker})
	if err != nil {
		return nil, errors.Trace(err)
	}
	op := store.Insert(marker, []byte("{}"), nil)
	if docs[0].Rev != 0 {
		op = store.Replace(marker, docs[0].Rev, []byte("{}"), nil)
	}
	if err := s.Apply(ctx, []store.Op{op}); err != nil {
		return nil, errors.Trace(err)
	}
	var all []store.Change
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return nil, errors.Trace(err)
		}
		all = append(all, changes...)
		if all[len(all)-1].Key == marker {
			return all, nil
		}
	}
}

// checkChanges checks that the changes are those of whole batches, each writer's
// in order and without gaps, from the batch after last to newest.
func checkChanges(changes []store.Change, last, newest [writers]int) error {
	revs := make(map[store.Key]store.Rev)
	for i, c := range changes {
		if c.Rev <= revs[c.Key] {
			return errors.Errorf("change %d: revision %d of %s after %d", i, c.Rev, c.ID, revs[c.Key])
		}
		revs[c.Key] = c.Rev
	}
	rest := changes[:len(changes)-1]
	for len(rest) > 0 {
		var writer int
		if _, err := fmt.Sscanf(rest[0].ID, "state-%d-0", &writer); err != nil || writer >= writers {
			return errors.Errorf("change of %s begins no batch", rest[0].ID)
		}
		last[writer]++
		want := batchKeys(writer, last[writer])
		if len(rest) < len(want) {
			return errors.Errorf("writer %d: the feed has half of batch %d", writer, last[writer])
		}
		for i, key := range want {
			if rest[i].Key != key || rest[i].Removed != (i > states) {
				return errors.Errorf("writer %d: the feed has %s in batch %d, want %s", writer, rest[i].ID, last[writer], key.ID)
			}
		}
		rest = rest[len(want):]
	}
	if last != newest {
		return errors.Errorf("the feed ends at batches %v, the documents at %v", last, newest)
	}
	return nil
}

// batchKeys returns the documents that a batch changes, in its order.
func batchKeys(writer, n int) []store.Key {
	var keys []store.Key
	for i := range states {
		keys = append(keys, stateKey(writer, i))
	}
	keys = append(keys, logKey(writer, n))
	if n > logLength {
		keys = append(keys, logKey(writer, n-logLength))
	}
	return keys
}
