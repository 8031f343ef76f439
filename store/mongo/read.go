package mongo

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/juju/errors"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
)

// row is a document as the server keeps it.
type row struct {
	ID   string `bson:"_id"`
	Rev  int64  `bson:"rev"`
	Data []byte `bson:"data"`
	Gone bool   `bson:"gone"`
}

// alive leaves out tombstones.
var alive = bson.DocElem{Name: "gone", Value: bson.D{{Name: "$exists", Value: false}}}

// findChunk is how many ids one find asks for, well below a command's 16 MB.
const findChunk = 20_000

const defaultLimit = 1000

// Get returns a document, or an error satisfying errors.NotFound.
func (s *Store) Get(ctx context.Context, key store.Key) (store.Doc, error) {
	if err := s.checkKey(key); err != nil {
		return store.Doc{}, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return store.Doc{}, err
	}
	defer end()
	doc, err := s.get(ctx, key)
	if err != nil {
		return store.Doc{}, errors.Annotatef(err, "cannot get %s %q", key.Collection, key.ID)
	}
	if doc.Rev == 0 {
		return store.Doc{}, errors.NotFoundf("%s %q", key.Collection, key.ID)
	}
	return doc, nil
}

// get returns a document as a majority has it; its revision is zero if it is
// missing.
func (s *Store) get(ctx context.Context, key store.Key) (store.Doc, error) {
	out := store.Doc{Key: key}
	err := s.retry(ctx, func() (bool, error) {
		r, err := exec[row](ctx, s, s.database, bson.D{
			{Name: "find", Value: key.Collection},
			{Name: "filter", Value: bson.D{{Name: "_id", Value: key.ID}, alive}},
			{Name: "limit", Value: 1},
			{Name: "singleBatch", Value: true},
			{Name: "readConcern", Value: bson.D{{Name: "level", Value: "majority"}}},
		})
		if err != nil {
			return readAgain(err), err
		}
		if len(r.Cursor.FirstBatch) > 0 {
			out = s.doc(key.Collection, r.Cursor.FirstBatch[0])
		}
		return false, nil
	})
	return out, err
}

// doc turns a row into a document.
func (s *Store) doc(collection string, r row) store.Doc {
	s.clock.observe(store.Rev(r.Rev))
	return store.Doc{Key: store.Key{Collection: collection, ID: r.ID}, Rev: store.Rev(r.Rev), Data: r.Data}
}

// GetAll returns the documents with these keys, read as one snapshot.
func (s *Store) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	for _, key := range keys {
		if err := s.checkKey(key); err != nil {
			return nil, err
		}
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(keys) == 0 {
		return nil, nil
	}
	found := map[store.Key]store.Doc{}
	if len(keys) == 1 {
		doc, err := s.get(ctx, keys[0])
		if err != nil {
			return nil, errors.Annotatef(err, "cannot get %s %q", keys[0].Collection, keys[0].ID)
		}
		return []store.Doc{doc}, nil
	}
	err = s.snapshot(ctx, func(sn *snapshot) error {
		clear(found)
		for _, f := range finds(keys) {
			rows, err := sn.find(ctx, f.collection, bson.D{{Name: "_id", Value: bson.D{{Name: "$in", Value: f.ids}}}, alive}, 0)
			if err != nil {
				return err
			}
			for _, r := range rows {
				d := s.doc(f.collection, r)
				found[d.Key] = d
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get %d documents", len(keys))
	}
	docs := make([]store.Doc, len(keys))
	for i, key := range keys {
		docs[i] = found[key]
		docs[i].Key = key
	}
	return docs, nil
}

// wanted are ids of one collection.
type wanted struct {
	collection string
	ids        []string
}

// finds says which finds yield the documents with these keys.
func finds(keys []store.Key) []wanted {
	var out []wanted
	current := map[string]int{} // collection to its place in out
	seen := make(map[store.Key]bool, len(keys))
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		i, ok := current[key.Collection]
		if !ok || len(out[i].ids) == findChunk {
			i = len(out)
			current[key.Collection] = i
			out = append(out, wanted{collection: key.Collection})
		}
		out[i].ids = append(out[i].ids, key.ID)
	}
	return out
}

// List returns one page of a listing.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.schema.CheckQuery(q); err != nil {
		return store.Page{}, err
	}
	if !utf8.ValidString(q.Prefix) || !utf8.ValidString(q.After) {
		return store.Page{}, errors.NotValidf("listing by a prefix or after an id that is not UTF-8")
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer end()
	limit := q.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	var rows []row
	err = s.snapshot(ctx, func(sn *snapshot) (err error) {
		rows, err = sn.find(ctx, q.Collection, filter(q), limit+1)
		return err
	})
	if err != nil {
		return store.Page{}, errors.Annotatef(err, "cannot list %s", q.Collection)
	}
	var page store.Page
	if len(rows) > limit { // one more than wanted: another page follows
		rows = rows[:limit]
		page.Next = rows[limit-1].ID
	}
	for _, r := range rows {
		page.Docs = append(page.Docs, s.doc(q.Collection, r))
	}
	return page, nil
}

// filter turns a query into the server's.
func filter(q store.Query) bson.D {
	var ids, f bson.D
	if q.After != "" && q.After >= q.Prefix {
		ids = append(ids, bson.DocElem{Name: "$gt", Value: q.After})
	} else if q.Prefix != "" {
		ids = append(ids, bson.DocElem{Name: "$gte", Value: q.Prefix})
	}
	if end := after(q.Prefix); end != "" {
		ids = append(ids, bson.DocElem{Name: "$lt", Value: end})
	}
	if q.Index != "" {
		f = append(f, bson.DocElem{Name: "ix", Value: indexEntry(q.Index, q.Value)})
	}
	if len(ids) > 0 {
		f = append(f, bson.DocElem{Name: "_id", Value: ids})
	}
	return append(f, alive)
}

// after returns the least string above all that start with prefix, "" if there
// is none. UTF-8 orders like the characters that it encodes.
func after(prefix string) string {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == 0xd7ff: // the surrogates follow, which are no characters
			return prefix + "\ue000"
		case r < utf8.MaxRune:
			return prefix + string(r+1)
		}
	}
	return ""
}

// indexEntry is an index value as it is stored. The name is escaped, so that
// the first "=" or "!" ends it; a value that is no plain text is escaped too.
func indexEntry(name, value string) string {
	if !validText(value) {
		return url.QueryEscape(name) + "!" + url.QueryEscape(value)
	}
	return url.QueryEscape(name) + "=" + value
}

// validText reports whether a string can be stored as one.
func validText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// checkKey refuses what is undeclared or no text.
func (s *Store) checkKey(key store.Key) error {
	if err := s.schema.CheckKey(key); err != nil {
		return err
	}
	if !validText(key.ID) {
		return errors.NotValidf("id %q of %s: not UTF-8 without NUL, so it is", key.ID, key.Collection)
	}
	return nil
}

// snapshot is one state of the database that several finds see.
type snapshot struct {
	s     *Store
	at    bson.MongoTimestamp // with snapshot reads: 0 before the first find
	txn   *serverSession      // without them
	begun bool
}

// snapshot calls f until it has read from one state. f may run several times.
func (s *Store) snapshot(ctx context.Context, f func(*snapshot) error) error {
	return s.retry(ctx, func() (bool, error) {
		sn := &snapshot{s: s}
		if !s.snapshots {
			sn.txn = s.sessions.get()
			defer s.sessions.put(sn.txn)
		}
		err := f(sn)
		if err == nil && sn.txn != nil {
			_, err = exec[bson.Raw](ctx, s, "admin", ending("commitTransaction", sn.txn))
		}
		return readAgain(err), err
	})
}

// readAgain reports whether a read may succeed when it is begun anew.
func readAgain(err error) bool {
	switch codeOf(err) {
	case codeSnapshotTooOld, codeSnapshotUnavailable, codeCursorNotFound:
		return true
	}
	return lost(err) || has(err, labelTransient)
}

// find returns all rows that match, by id, at most limit if it is not zero.
func (sn *snapshot) find(ctx context.Context, collection string, filter bson.D, limit int) ([]row, error) {
	cmd := bson.D{
		{Name: "find", Value: collection},
		{Name: "filter", Value: filter},
		{Name: "sort", Value: bson.D{{Name: "_id", Value: 1}}},
		{Name: "batchSize", Value: 1 << 20}, // as many as fit in a message
	}
	if limit > 0 {
		cmd = append(cmd, bson.DocElem{Name: "limit", Value: limit})
	}
	if sn.txn != nil {
		cmd = append(cmd, within(sn.txn, !sn.begun)...)
		sn.begun = true
	} else {
		concern := bson.D{{Name: "level", Value: "snapshot"}}
		if sn.at != 0 {
			concern = append(concern, bson.DocElem{Name: "atClusterTime", Value: sn.at})
		}
		cmd = append(cmd, bson.DocElem{Name: "readConcern", Value: concern})
	}
	r, err := exec[row](ctx, sn.s, sn.s.database, cmd)
	if err != nil {
		return nil, err
	}
	rows := r.Cursor.FirstBatch
	if r.Cursor.At != 0 {
		sn.at = r.Cursor.At
	}
	for id := r.Cursor.ID; id != 0; id = r.Cursor.ID {
		more := bson.D{{Name: "getMore", Value: id}, {Name: "collection", Value: collection}}
		if sn.txn != nil {
			more = append(more, within(sn.txn, false)...)
		}
		if r, err = exec[row](ctx, sn.s, sn.s.database, more); err != nil {
			return nil, err
		}
		rows = append(rows, r.Cursor.NextBatch...)
	}
	return rows, nil
}
