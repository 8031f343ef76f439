package statetest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// Memory is a store in memory, for tests that need no disk. It counts the calls
// that it gets, can lose its history and can be made to fail.
type Memory struct {
	schema store.Schema

	mu     sync.Mutex
	docs   map[store.Key]memoryDoc
	rev    store.Rev
	log    []store.Change
	first  int           // number of changes that are no longer kept
	wake   chan struct{} // closed at the next change
	closed bool
	calls  Calls
	fail   func(call string) error
}

type memoryDoc struct {
	store.Doc
	index map[string]string
}

// Calls counts the calls that a Memory got.
type Calls struct {
	Get, GetAll, List, Apply int
	Ops                      int // of all applied batches, asserts too
}

// Total returns the number of calls of all kinds.
func (c Calls) Total() int { return c.Get + c.GetAll + c.List + c.Apply }

var _ store.Store = (*Memory)(nil)

// NewMemory returns an empty store that keeps the collections of package state.
func NewMemory() *Memory {
	schema, err := store.NewSchema(state.Collections())
	if err != nil {
		panic(err) // the table of package state is wrong
	}
	return &Memory{schema: schema, docs: map[store.Key]memoryDoc{}, wake: make(chan struct{})}
}

// Calls returns how many calls there have been so far.
func (m *Memory) Calls() Calls {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Fail makes every call return what f returns for it, unless that is nil. Calls
// are named "get", "get all", "list", "apply" and "changes". A nil f ends it.
func (m *Memory) Fail(f func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// LoseHistory forgets all changes that have not been read yet, so that each feed
// returns store.ErrHistoryLost once it gets there. Further changes are kept.
func (m *Memory) LoseHistory() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first += len(m.log) + 1
	m.log = nil
	m.announce()
}

func (m *Memory) announce() {
	close(m.wake)
	m.wake = make(chan struct{})
}

// begin starts a call; the lock is held.
func (m *Memory) begin(ctx context.Context, call string, count *int) error {
	*count++
	if m.closed {
		return store.ErrClosed
	}
	if m.fail != nil {
		if err := m.fail(call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Get implements store.Store.
func (m *Memory) Get(ctx context.Context, key store.Key) (store.Doc, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "get", &m.calls.Get); err != nil {
		return store.Doc{}, err
	}
	d, ok := m.docs[key]
	if !ok {
		return store.Doc{}, errors.NotFoundf("document %s %q", key.Collection, key.ID)
	}
	return d.Doc, nil
}

// GetAll implements store.Store.
func (m *Memory) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "get all", &m.calls.GetAll); err != nil {
		return nil, err
	}
	docs := make([]store.Doc, len(keys))
	for i, key := range keys {
		docs[i] = m.docs[key].Doc
		docs[i].Key = key
	}
	return docs, nil
}

// List implements store.Store.
func (m *Memory) List(ctx context.Context, q store.Query) (store.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "list", &m.calls.List); err != nil {
		return store.Page{}, err
	}
	if err := m.schema.CheckQuery(q); err != nil {
		return store.Page{}, err
	}
	limit := q.Limit
	if limit == 0 {
		limit = 1000
	}
	var found []store.Doc
	for key, d := range m.docs {
		if key.Collection != q.Collection || !strings.HasPrefix(key.ID, q.Prefix) || key.ID <= q.After ||
			q.Index != "" && d.index[q.Index] != q.Value {
			continue
		}
		found = append(found, d.Doc)
	}
	slices.SortFunc(found, func(a, b store.Doc) int { return strings.Compare(a.ID, b.ID) })
	if len(found) <= limit {
		return store.Page{Docs: found}, nil
	}
	return store.Page{Docs: found[:limit], Next: found[limit-1].ID}, nil
}

// Apply implements store.Store.
func (m *Memory) Apply(ctx context.Context, ops []store.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "apply", &m.calls.Apply); err != nil {
		return err
	}
	m.calls.Ops += len(ops)
	if err := m.schema.CheckOps(ops); err != nil {
		return err
	}
	for _, op := range ops {
		switch now := m.docs[op.Key].Rev; op.Kind {
		case store.OpInsert, store.OpAssertMissing:
			if now != 0 {
				return errors.Annotatef(store.ErrConflict, "cannot %v %s %q", op.Kind, op.Collection, op.ID)
			}
		default:
			if now != op.Rev || now == 0 {
				return errors.Annotatef(store.ErrConflict, "cannot %v %s %q", op.Kind, op.Collection, op.ID)
			}
		}
	}
	m.write(ops)
	return nil
}

func (m *Memory) write(ops []store.Op) {
	wrote := false
	for _, op := range ops {
		if !op.Writes() {
			continue
		}
		wrote = true
		m.rev++
		if op.Kind == store.OpRemove {
			delete(m.docs, op.Key)
		} else {
			m.docs[op.Key] = memoryDoc{store.Doc{Key: op.Key, Rev: m.rev, Data: slices.Clone(op.Data)}, maps.Clone(op.Index)}
		}
		m.log = append(m.log, store.Change{Key: op.Key, Rev: m.rev, Removed: op.Kind == store.OpRemove,
			Position: store.Position(strconv.Itoa(m.first + len(m.log) + 1))})
	}
	if wrote {
		m.announce()
	}
}

// Changes implements store.Store.
func (m *Memory) Changes(ctx context.Context, after store.Position) (store.Feed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var none int
	if err := m.begin(ctx, "changes", &none); err != nil {
		return nil, err
	}
	next := m.first + len(m.log)
	if after != "" {
		var err error
		if next, err = strconv.Atoi(string(after)); err != nil {
			return nil, errors.NotValidf("position %q", after)
		}
	}
	if next < m.first {
		return nil, store.ErrHistoryLost
	}
	return &memoryFeed{m: m, next: next, over: make(chan struct{})}, nil
}

// Close implements store.Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.announce()
	return nil
}

type memoryFeed struct {
	m    *Memory
	next int
	once sync.Once
	over chan struct{}
}

// Next implements store.Feed.
func (f *memoryFeed) Next(ctx context.Context) ([]store.Change, error) {
	for {
		f.m.mu.Lock()
		wake, lost, closed := f.m.wake, f.next < f.m.first, f.m.closed
		var changes []store.Change
		if !lost {
			changes = slices.Clone(f.m.log[f.next-f.m.first:])
		}
		f.m.mu.Unlock()
		select {
		case <-f.over:
			return nil, store.ErrClosed
		default:
		}
		switch {
		case closed:
			return nil, store.ErrClosed
		case lost:
			return nil, store.ErrHistoryLost
		case len(changes) > 0:
			f.next += len(changes)
			return changes, nil
		}
		select {
		case <-wake:
		case <-f.over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close implements store.Feed.
func (f *memoryFeed) Close() error {
	f.once.Do(func() { close(f.over) })
	return nil
}
