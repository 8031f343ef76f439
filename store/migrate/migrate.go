package migrate

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/store"
)

var logger = loggo.GetLogger("slipway.store.migrate")

// ErrBusy says that the source was still written to after the fence.
const ErrBusy = errors.ConstError("the source is still written to")

const (
	pageSize  = 200     // documents in a page
	batchDocs = 100     // most documents in a batch
	batchSize = 1 << 20 // bytes from which on a batch is full
	maxRounds = 5       // comparisons until the source counts as busy
)

// Source is a store that is read.
type Source interface {
	GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	Changes(ctx context.Context, after store.Position) (store.Feed, error)
}

// Config says what to copy where. Every field but Still is required.
type Config struct {
	From        Source
	To          store.Store
	Collections []store.Collection
	// Index returns the index values of a document, which no store gives back.
	Index func(store.Doc) (map[string]string, error)
	// Fence returns when nobody writes to the source any more. It is called once,
	// when the copy has caught up, and changes are followed meanwhile.
	Fence func(context.Context) error
	// Still is called before the end; it returns ErrBusy if the source was
	// written to after the fence. Nil means that the fence holds for sure.
	Still func(context.Context) error
	// Last is the document that makes a store a site; it is copied last.
	Last store.Key
	// Mark is a document that only a target has that is not whole.
	Mark store.Key
}

// Result is what a migration has done.
type Result struct {
	Documents int           // in the target, each compared with the source's
	Changes   int           // written while the copy was made
	Repaired  int           // documents in which the first comparison found a difference
	Fenced    time.Duration // from the fence to the end: how long nobody could write
}

// Run copies everything. It returns an error satisfying errors.AlreadyExists if the
// target holds a site, and ErrBusy if the fence did not hold.
func Run(ctx context.Context, c Config) (Result, error) {
	m := &migration{Config: c}
	if err := m.begin(ctx); err != nil {
		return m.result, errors.Annotate(err, "cannot prepare the target")
	}
	feed, err := c.From.Changes(ctx, "") // before reading, so that nothing is missed
	if err != nil {
		return m.result, errors.Annotate(err, "cannot follow the source")
	}
	defer feed.Close()
	for _, col := range c.Collections {
		if err := m.copy(ctx, col.Name); err != nil {
			return m.result, errors.Annotatef(err, "cannot copy %s", col.Name)
		}
	}
	logger.Infof("copied %d documents; following changes", m.result.Documents)
	if err := m.follow(ctx, feed); err != nil {
		return m.result, errors.Trace(err)
	}
	fenced := time.Now()
	if err := m.compareAll(ctx); err != nil {
		return m.result, errors.Trace(err)
	}
	if c.Still != nil {
		if err := c.Still(ctx); err != nil {
			return m.result, errors.Trace(err)
		}
	}
	err = m.finish(ctx)
	m.result.Fenced = time.Since(fenced)
	return m.result, errors.Annotate(err, "cannot finish the target")
}

// migration is one run.
type migration struct {
	Config
	result Result
}

// held reports whether a document is not copied like the others.
func (m *migration) held(key store.Key) bool { return key == m.Last || key == m.Mark }

// begin marks the target as not whole, and empties one that an earlier run has
// left.
func (m *migration) begin(ctx context.Context) error {
	docs, err := m.To.GetAll(ctx, []store.Key{m.Last, m.Mark})
	if err != nil {
		return errors.Trace(err)
	}
	if docs[0].Rev != 0 {
		return errors.AlreadyExistsf("site in the target")
	}
	if docs[1].Rev == 0 {
		return errors.Trace(m.To.Apply(ctx, []store.Op{store.Insert(m.Mark, []byte("{}"), nil)}))
	}
	logger.Infof("an earlier migration was not finished: beginning anew")
	for _, col := range m.Collections {
		if err := m.clear(ctx, col.Name); err != nil {
			return errors.Annotatef(err, "cannot empty %s", col.Name)
		}
	}
	return nil
}

// clear removes the documents of a collection of the target.
func (m *migration) clear(ctx context.Context, collection string) error {
	return m.pages(ctx, m.To, collection, func(docs []store.Doc) error {
		var ops []store.Op
		for _, d := range docs {
			if !m.held(d.Key) {
				ops = append(ops, store.Remove(d.Key, d.Rev))
			}
		}
		return m.apply(ctx, ops)
	})
}

// pages calls visit with every page of a collection.
func (m *migration) pages(ctx context.Context, s Source, collection string, visit func([]store.Doc) error) error {
	q := store.Query{Collection: collection, Limit: pageSize}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return errors.Trace(err)
		}
		if err := visit(page.Docs); err != nil {
			return errors.Trace(err)
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// apply writes operations in batches of a moderate size.
func (m *migration) apply(ctx context.Context, ops []store.Op) error {
	for start, size, i := 0, 0, 0; i < len(ops); i++ {
		size += len(ops[i].Data)
		if i+1 == len(ops) || i+1-start == batchDocs || size >= batchSize {
			if err := m.To.Apply(ctx, ops[start:i+1]); err != nil {
				return errors.Trace(err)
			}
			start, size = i+1, 0
		}
	}
	return nil
}

// copy copies a collection.
func (m *migration) copy(ctx context.Context, collection string) error {
	return m.pages(ctx, m.From, collection, func(docs []store.Doc) error {
		var ops []store.Op
		for _, d := range docs {
			if m.held(d.Key) {
				continue
			}
			op, err := m.write(d, store.Doc{Key: d.Key})
			if err != nil {
				return errors.Trace(err)
			}
			ops = append(ops, op)
		}
		m.result.Documents += len(ops)
		return m.apply(ctx, ops)
	})
}

// write returns the operation that makes the target's document what the source's
// is; either may be missing, but not both.
func (m *migration) write(from, to store.Doc) (store.Op, error) {
	if from.Rev == 0 {
		return store.Remove(to.Key, to.Rev), nil
	}
	index, err := m.Index(from)
	if err != nil {
		return store.Op{}, errors.Annotatef(err, "cannot index %s %q", from.Collection, from.ID)
	}
	if to.Rev == 0 {
		return store.Insert(from.Key, from.Data, index), nil
	}
	return store.Replace(from.Key, to.Rev, from.Data, index), nil
}

// sync makes some of the target's documents what the source's are. It returns
// how many were not.
func (m *migration) sync(ctx context.Context, keys []store.Key) (int, error) {
	from, err := m.From.GetAll(ctx, keys)
	if err != nil {
		return 0, errors.Trace(err)
	}
	to, err := m.To.GetAll(ctx, keys)
	if err != nil {
		return 0, errors.Trace(err)
	}
	var ops []store.Op
	for i := range from {
		if same(from[i], to[i]) {
			continue
		}
		op, err := m.write(from[i], to[i])
		if err != nil {
			return 0, errors.Trace(err)
		}
		ops = append(ops, op)
	}
	return len(ops), errors.Trace(m.apply(ctx, ops))
}

// same reports whether two documents have the same content, or are both missing.
func same(a, b store.Doc) bool {
	return (a.Rev == 0) == (b.Rev == 0) && string(a.Data) == string(b.Data)
}

// finish makes the target a site, and no longer one that is not whole.
func (m *migration) finish(ctx context.Context) error {
	from, err := m.From.GetAll(ctx, []store.Key{m.Last})
	if err != nil {
		return errors.Trace(err)
	}
	if from[0].Rev == 0 {
		return errors.NotFoundf("site in the source")
	}
	to, err := m.To.GetAll(ctx, []store.Key{m.Mark})
	if err != nil {
		return errors.Trace(err)
	}
	op, err := m.write(from[0], store.Doc{Key: m.Last})
	if err != nil {
		return errors.Trace(err)
	}
	m.result.Documents++
	return errors.Trace(m.To.Apply(ctx, []store.Op{op, store.Remove(m.Mark, to[0].Rev)}))
}
