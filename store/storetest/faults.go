package storetest

import (
	"context"
	"maps"
	"sync"

	"github.com/slipway-project/slipway/store"
)

// Failing returns a store whose every call fails with err, except Close.
func Failing(err error) store.Store { return failing{err} }

// failing implements store.Store.
type failing struct{ err error }

func (f failing) Get(context.Context, store.Key) (store.Doc, error) { return store.Doc{}, f.err }

func (f failing) GetAll(context.Context, []store.Key) ([]store.Doc, error) { return nil, f.err }

func (f failing) List(context.Context, store.Query) (store.Page, error) {
	return store.Page{}, f.err
}

func (f failing) Apply(context.Context, []store.Op) error { return f.err }

func (f failing) Changes(context.Context, store.Position) (store.Feed, error) { return nil, f.err }

func (f failing) Close() error { return nil }

// Call is a call of a store, as a Tap sees it.
type Call struct {
	Method string       // Get, GetAll, List, Apply, Changes or Next
	Keys   []store.Key  // of Get and GetAll; for Apply those of its operations
	Ops    []store.Op   // of Apply
	Query  *store.Query // of List
}

// Tap passes calls on to a store, counts them, and fails those it is told to.
// Its methods may be called at any time, from any goroutine.
type Tap struct {
	store.Store

	mu            sync.Mutex
	before, after Hook
	counts        map[string]int
}

// Hook is called beside each call of a store, by several goroutines at once.
// It may block, to hold a call up. An error becomes the call's.
type Hook func(ctx context.Context, c Call) error

var _ store.Store = (*Tap)(nil)

// NewTap returns a tap of s without hooks.
func NewTap(s store.Store) *Tap { return &Tap{Store: s} }

// SetBefore has h called before each call from now on; nil means no hook. A call
// that it fails is not seen by the store.
func (t *Tap) SetBefore(h Hook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before = h
}

// SetAfter has h called after each call that succeeded and begins from now on; nil
// means no hook. A call that it fails has been done by the store all the same: an
// answer lost.
func (t *Tap) SetAfter(h Hook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.after = h
}

// Counts returns how often each method was called, failed calls included.
func (t *Tap) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// Reset sets all counts to zero.
func (t *Tap) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = nil
}

// run counts one call and makes it between the hooks.
func (t *Tap) run(ctx context.Context, c Call, call func() error) error {
	t.mu.Lock()
	if t.counts == nil {
		t.counts = make(map[string]int)
	}
	t.counts[c.Method]++
	before, after := t.before, t.after
	t.mu.Unlock()
	if before != nil {
		if err := before(ctx, c); err != nil {
			return err
		}
	}
	if err := call(); err != nil || after == nil {
		return err
	}
	return after(ctx, c)
}

// Get implements store.Store.
func (t *Tap) Get(ctx context.Context, key store.Key) (doc store.Doc, err error) {
	err = t.run(ctx, Call{Method: "Get", Keys: []store.Key{key}}, func() error {
		doc, err = t.Store.Get(ctx, key)
		return err
	})
	return doc, err
}

// GetAll implements store.Store.
func (t *Tap) GetAll(ctx context.Context, keys []store.Key) (docs []store.Doc, err error) {
	err = t.run(ctx, Call{Method: "GetAll", Keys: keys}, func() error {
		docs, err = t.Store.GetAll(ctx, keys)
		return err
	})
	return docs, err
}

// List implements store.Store.
func (t *Tap) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = t.run(ctx, Call{Method: "List", Query: &q}, func() error {
		page, err = t.Store.List(ctx, q)
		return err
	})
	return page, err
}

// Apply implements store.Store.
func (t *Tap) Apply(ctx context.Context, ops []store.Op) error {
	keys := make([]store.Key, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	return t.run(ctx, Call{Method: "Apply", Keys: keys, Ops: ops}, func() error {
		return t.Store.Apply(ctx, ops)
	})
}

// Changes implements store.Store. Calls of the feed's Next pass the tap too.
func (t *Tap) Changes(ctx context.Context, after store.Position) (feed store.Feed, err error) {
	err = t.run(ctx, Call{Method: "Changes"}, func() error {
		feed, err = t.Store.Changes(ctx, after)
		return err
	})
	if err != nil {
		if feed != nil {
			feed.Close()
		}
		return nil, err
	}
	return tapFeed{feed, t}, nil
}

// tapFeed passes Next through the tap.
type tapFeed struct {
	store.Feed
	tap *Tap
}

// Next implements store.Feed.
func (f tapFeed) Next(ctx context.Context) (changes []store.Change, err error) {
	err = f.tap.run(ctx, Call{Method: "Next"}, func() error {
		changes, err = f.Feed.Next(ctx)
		return err
	})
	return changes, err
}
