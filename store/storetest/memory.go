package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// disks counts disks, so that positions of one are foreign to the others.
var disks atomic.Int64

// Disk keeps the documents of stores in memory. It passes for a data directory
// in tests of what happens when a store is opened again.
type Disk struct {
	name string

	mu      sync.Mutex
	docs    map[store.Key]entry
	seq     int64          // of the newest change; also the source of revisions
	changes []store.Change // the newest ones; the last is number seq
	history int
	changed chan struct{} // closed and replaced when something happens
}

// entry is a document with its index values.
type entry struct {
	doc   store.Doc
	index map[string]string
}

// NewDisk returns a disk without documents.
func NewDisk() *Disk {
	return &Disk{
		name:    fmt.Sprintf("memory-%d", disks.Add(1)),
		docs:    make(map[store.Key]entry),
		changed: make(chan struct{}),
	}
}

// New returns an empty store in memory, closed when the test ends. It keeps
// 10,000 changes.
func New(t testing.TB, collections []store.Collection) store.Store {
	t.Helper()
	s, err := NewDisk().Open(Options{Collections: collections})
	if err != nil {
		t.Fatalf("cannot open a store in memory: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Open opens a store on the disk's documents. History 0 means 10,000 changes.
func (d *Disk) Open(o Options) (store.Store, error) {
	schema, err := store.NewSchema(o.Collections)
	if err != nil {
		return nil, errors.Trace(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.history = o.History; d.history == 0 {
		d.history = 10_000
	}
	return &memory{disk: d, schema: schema, done: make(chan struct{})}, nil
}

// memory is a store on a disk.
type memory struct {
	disk   *Disk
	schema store.Schema
	once   sync.Once
	done   chan struct{}
}

var _ store.Store = (*memory)(nil)

// check returns why a call must not go on.
func (m *memory) check(ctx context.Context) error {
	select {
	case <-m.done:
		return errors.Trace(store.ErrClosed)
	default:
		return errors.Trace(ctx.Err())
	}
}

// Get implements store.Store.
func (m *memory) Get(ctx context.Context, key store.Key) (store.Doc, error) {
	docs, err := m.GetAll(ctx, []store.Key{key})
	if err != nil {
		return store.Doc{}, err
	}
	if docs[0].Rev == 0 {
		return store.Doc{}, errors.NotFoundf("%s %q", key.Collection, key.ID)
	}
	return docs[0], nil
}

// GetAll implements store.Store.
func (m *memory) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	docs := make([]store.Doc, len(keys))
	for i, key := range keys {
		if err := m.schema.CheckKey(key); err != nil {
			return nil, err
		}
		docs[i] = store.Doc{Key: key}
		if e, ok := m.disk.docs[key]; ok {
			docs[i] = clone(e.doc)
		}
	}
	return docs, nil
}

// List implements store.Store. It looks at every document.
func (m *memory) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := m.check(ctx); err != nil {
		return store.Page{}, err
	}
	if err := m.schema.CheckQuery(q); err != nil {
		return store.Page{}, err
	}
	if q.Limit == 0 {
		q.Limit = 1000
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	var page store.Page
	for key, e := range m.disk.docs {
		value, indexed := e.index[q.Index]
		if key.Collection == q.Collection && key.ID > q.After && strings.HasPrefix(key.ID, q.Prefix) &&
			(q.Index == "" || indexed && value == q.Value) {
			page.Docs = append(page.Docs, e.doc)
		}
	}
	slices.SortFunc(page.Docs, func(a, b store.Doc) int { return strings.Compare(a.ID, b.ID) })
	if len(page.Docs) > q.Limit {
		page.Docs = page.Docs[:q.Limit]
		page.Next = page.Docs[q.Limit-1].ID
	}
	for i := range page.Docs {
		page.Docs[i] = clone(page.Docs[i])
	}
	return page, nil
}

// Apply implements store.Store.
func (m *memory) Apply(ctx context.Context, ops []store.Op) error {
	if err := m.check(ctx); err != nil {
		return err
	}
	if err := m.schema.CheckOps(ops); err != nil {
		return err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	for _, op := range ops {
		rev := m.disk.docs[op.Key].doc.Rev // 0 when missing, which insert and assert missing want
		if rev != op.Rev {
			return errors.Annotatef(store.ErrConflict, "cannot %s %s %q", op.Kind, op.Collection, op.ID)
		}
	}
	for _, op := range ops {
		if op.Writes() {
			m.disk.write(op)
		}
	}
	m.disk.wake()
	return nil
}

// write makes one change. The caller holds the lock.
func (d *Disk) write(op store.Op) {
	d.seq++
	c := store.Change{Position: d.position(d.seq), Key: op.Key, Rev: store.Rev(d.seq)}
	if op.Kind == store.OpRemove {
		c.Rev, c.Removed = op.Rev+1, true
		delete(d.docs, op.Key)
	} else {
		doc := clone(store.Doc{Key: op.Key, Rev: c.Rev, Data: op.Data})
		d.docs[op.Key] = entry{doc: doc, index: maps.Clone(op.Index)}
	}
	d.changes = append(d.changes, c)
	if len(d.changes) > d.history {
		d.changes = d.changes[len(d.changes)-d.history:]
	}
}

// wake releases everything that waits for a change. The caller holds the lock.
func (d *Disk) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// position returns the position of change number n.
func (d *Disk) position(n int64) store.Position {
	return store.Position(fmt.Sprintf("%s.%d", d.name, n))
}

// Changes implements store.Store.
func (m *memory) Changes(ctx context.Context, after store.Position) (store.Feed, error) {
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	f := &memoryFeed{memory: m, next: m.disk.seq + 1, done: make(chan struct{})}
	if after == "" {
		return f, nil
	}
	if _, err := fmt.Sscanf(string(after), m.disk.name+".%d", &f.next); err != nil || m.disk.position(f.next) != after {
		return nil, errors.NotValidf("position %q", after)
	}
	f.next++
	if f.next <= m.disk.seq-int64(len(m.disk.changes)) || f.next > m.disk.seq+1 {
		return nil, errors.Trace(store.ErrHistoryLost)
	}
	return f, nil
}

// Close implements store.Store.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// memoryFeed is a feed of a memory store.
type memoryFeed struct {
	*memory
	next int64 // number of the change to read next
	once sync.Once
	done chan struct{}
}

// Next implements store.Feed.
func (f *memoryFeed) Next(ctx context.Context) ([]store.Change, error) {
	for {
		select {
		case <-f.done:
			return nil, errors.Trace(store.ErrClosed)
		default:
		}
		if err := f.check(ctx); err != nil {
			return nil, err
		}
		changes, changed, err := f.poll()
		if err != nil || len(changes) > 0 {
			return changes, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-f.done:
		case <-f.memory.done:
		}
	}
}

// poll returns the changes that are there, and what is closed at the next one.
func (f *memoryFeed) poll() ([]store.Change, <-chan struct{}, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := d.seq - int64(len(d.changes)) + 1
	if f.next < oldest {
		return nil, nil, errors.Trace(store.ErrHistoryLost)
	}
	changes := slices.Clone(d.changes[f.next-oldest:])
	f.next = d.seq + 1
	return changes, d.changed, nil
}

// Close implements store.Feed.
func (f *memoryFeed) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

// clone copies a document with its bytes, so that a caller that changes them
// in place is not noticed by others.
func clone(d store.Doc) store.Doc {
	d.Data = slices.Clone(d.Data)
	return d
}
