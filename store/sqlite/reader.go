package sqlite

import (
	"context"
	"database/sql"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// listLimit is the size of a page when the query does not say.
const listLimit = 1000

// The two listings. Each has one range of ids, which an index can follow, and one
// document more than the page takes, to know whether there is a next page.
const (
	listQuery = `SELECT d.id, d.rev, d.data FROM docs d WHERE d.collection = ?
		AND d.id >= ? AND d.id < ? ORDER BY d.id LIMIT ?`
	listIndexQuery = `SELECT e.id, d.rev, d.data FROM entries e CROSS JOIN docs d ON d.num = e.doc
		WHERE e.collection = ? AND e.name = ? AND e.value = ?
		AND e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ?`
)

// reader is one reading connection with its statements. Its calls do not carry
// the caller's context: that would start a goroutine for each, to interrupt what
// takes microseconds. Loops look at the context themselves.
type reader struct {
	begin, commit *sql.Stmt
	get           *sql.Stmt
	list          *sql.Stmt
	listIndex     *sql.Stmt
	changes       *sql.Stmt
}

// newReader prepares the statements on a connection.
func newReader(ctx context.Context, c *conn) (*reader, error) {
	r := &reader{}
	err := c.prepare(ctx, []statement{
		{&r.begin, "BEGIN"},
		{&r.commit, "COMMIT"},
		{&r.get, "SELECT rev, data FROM docs WHERE collection = ? AND id = ?"},
		{&r.list, listQuery},
		{&r.listIndex, listIndexQuery},
		{&r.changes, "SELECT pos, collection, id, rev, removed FROM changes WHERE pos > ? ORDER BY pos LIMIT ?"},
	})
	return r, errors.Trace(err)
}

// acquire takes a free reader; the caller gives it back into s.free.
func (s *Store) acquire(ctx context.Context) (*reader, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	select {
	case r := <-s.free:
		return r, nil
	case <-ctx.Done():
		return nil, errors.Trace(ctx.Err())
	case <-s.tomb.Dying():
		return nil, errors.Trace(store.ErrClosed)
	}
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key store.Key) (store.Doc, error) {
	if err := s.schema.CheckKey(key); err != nil {
		return store.Doc{}, errors.Trace(err)
	}
	if err := s.check(ctx); err != nil {
		return store.Doc{}, err
	}
	doc, reservation := s.cache.get(key)
	if doc.Rev == 0 {
		var err error
		doc, err = s.getFromFile(ctx, key)
		s.cache.fill(reservation, doc)
		if err != nil {
			return store.Doc{}, err
		}
	}
	if doc.Rev == 0 {
		return store.Doc{}, errors.NotFoundf("%s %q", key.Collection, key.ID)
	}
	return doc, nil
}

// getFromFile reads one document; one that is missing, or cannot be read, has
// revision 0.
func (s *Store) getFromFile(ctx context.Context, key store.Key) (store.Doc, error) {
	r, err := s.acquire(ctx)
	if err != nil {
		return store.Doc{Key: key}, err
	}
	defer func() { s.free <- r }()
	doc, err := r.read(s.numbers[key.Collection], key)
	if err != nil {
		return store.Doc{Key: key}, errors.Annotatef(err, "cannot get %s %q", key.Collection, key.ID)
	}
	return doc, nil
}

// read reads one document; a missing one has revision 0.
func (r *reader) read(collection int64, key store.Key) (store.Doc, error) {
	doc := store.Doc{Key: key}
	err := r.get.QueryRowContext(context.Background(), collection, key.ID).Scan(&doc.Rev, &doc.Data)
	if errors.Is(err, sql.ErrNoRows) {
		return doc, nil
	}
	return doc, errors.Trace(err)
}

// GetAll implements store.Store.
func (s *Store) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	for _, key := range keys {
		if err := s.schema.CheckKey(key); err != nil {
			return nil, errors.Trace(err)
		}
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	docs := make([]store.Doc, len(keys))
	missing, entries := s.cache.getAll(keys, docs)
	if len(missing) == 0 {
		return docs, nil
	}
	all := 2*len(missing) > len(keys) // then what is here saves little
	places := missing
	if all {
		places = nil
	}
	err := s.getAllFromFile(ctx, keys, docs, places)
	for _, i := range missing {
		d := docs[i]
		if err != nil {
			d.Rev = 0
		}
		s.cache.fill(entries[i], d)
	}
	if err == nil && !all && !s.cache.stillAll(keys, entries, missing) {
		err = s.getAllFromFile(ctx, keys, docs, nil)
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get %d documents", len(keys))
	}
	return docs, nil
}

// getAllFromFile reads the documents at some places, nil for all, as one
// snapshot.
func (s *Store) getAllFromFile(ctx context.Context, keys []store.Key, docs []store.Doc, places []int) error {
	if places == nil {
		places = make([]int, len(keys))
		for i := range places {
			places[i] = i
		}
	}
	r, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.free <- r }()
	return r.readAll(ctx, s.numbers, keys, docs, places)
}

// readAll reads documents in one transaction, which is one snapshot.
func (r *reader) readAll(ctx context.Context, numbers map[string]int64, keys []store.Key, docs []store.Doc, places []int) (err error) {
	if _, err := r.begin.ExecContext(context.Background()); err != nil {
		return errors.Trace(err)
	}
	defer func() {
		if _, e := r.commit.ExecContext(context.Background()); err == nil {
			err = errors.Trace(e)
		}
	}()
	for _, i := range places {
		if err := ctx.Err(); err != nil {
			return errors.Trace(err)
		}
		if docs[i], err = r.read(numbers[keys[i].Collection], keys[i]); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// List implements store.Store. Prefix and Index may be combined.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.schema.CheckQuery(q); err != nil {
		return store.Page{}, errors.Trace(err)
	}
	if q.Limit == 0 {
		q.Limit = listLimit
	}
	r, err := s.acquire(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer func() { s.free <- r }()
	page, err := r.page(ctx, s.numbers[q.Collection], q)
	return page, errors.Annotatef(err, "cannot list %s", q.Collection)
}

// page reads one page.
func (r *reader) page(ctx context.Context, collection int64, q store.Query) (store.Page, error) {
	stmt, args := r.list, []any{collection}
	if q.Index != "" {
		stmt, args = r.listIndex, append(args, q.Index, q.Value)
	}
	from, to := idRange(q)
	rows, err := stmt.QueryContext(context.Background(), append(args, from, to, q.Limit+1)...)
	if err != nil {
		return store.Page{}, errors.Trace(err)
	}
	defer rows.Close()
	var page store.Page
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return store.Page{}, errors.Trace(err)
		}
		if len(page.Docs) == q.Limit {
			page.Next = page.Docs[q.Limit-1].ID
			break
		}
		doc := store.Doc{Key: store.Key{Collection: q.Collection}}
		if err := rows.Scan(&doc.ID, &doc.Rev, &doc.Data); err != nil {
			return store.Page{}, errors.Trace(err)
		}
		page.Docs = append(page.Docs, doc)
	}
	return page, errors.Trace(rows.Err())
}

// idRange returns the least id that a page may contain, and the bound that its
// ids stay below: a text, or a blob, which SQLite sorts after every text.
func idRange(q store.Query) (from string, to any) {
	from, to = q.Prefix, []byte{0}
	if q.After != "" {
		from = max(from, q.After+"\x00") // the next id in byte order
	}
	end := []byte(q.Prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return from, string(end[:i+1])
		}
	}
	return from, to
}
