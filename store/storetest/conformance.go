package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// limit bounds every test of the suite; a wait that lasts longer has failed.
const limit = 5 * time.Minute

// Options says how the suite wants a store opened.
type Options struct {
	Collections []store.Collection
	History     int // changes to keep, at least; 0 means the implementation's default
}

// Subject is one place where stores of an implementation keep their data.
type Subject struct {
	// Open opens a store on the subject's data, the same data at every call.
	// It fails the test if it cannot. The suite closes a store before it opens
	// the next one.
	Open func(t *testing.T, o Options) store.Store

	// LoseHistory makes the store forget the changes so far. Nil means that
	// writing many times more changes than Options.History does it.
	LoseHistory func(t *testing.T, s store.Store)
}

// collections are those that the suite works with.
var collections = []store.Collection{
	{Name: "machines", Indexes: []string{"model", "zone"}},
	{Name: "claims"},
}

// fixture is what each test of the suite gets.
type fixture struct {
	ctx     context.Context
	fresh   func() Subject
	subject Subject
	store.Store
}

// RunConformance tests an implementation: newSubject makes a place without
// data, and cleans up after it.
func RunConformance(t *testing.T, newSubject func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"reads what was written", testReadBack},
		{"missing documents", testMissing},
		{"conflicts", testConflicts},
		{"failing batches leave nothing", testFailingBatch},
		{"malformed batches", testMalformed},
		{"revisions never repeat", testRevisions},
		{"one batch wins a race", testRace},
		{"one snapshot", testSnapshot},
		{"listing in pages", testListPages},
		{"listing by prefix", testListPrefix},
		{"listing by index", testListIndex},
		{"undeclared names", testUndeclared},
		{"many documents", testManyDocuments},
		{"feed from now", testFeedFromNow},
		{"feed under concurrent writers", testFeedConcurrent},
		{"feed resumed", testFeedResumed},
		{"foreign positions", testForeignPosition},
		{"history lost", testHistoryLost},
		{"closed feed", testClosedFeed},
		{"closed store", testClosedStore},
		{"cancelled calls", testCancelled},
		{"opened again", testReopened},
		{"agrees with a model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			f := &fixture{ctx: ctx, fresh: func() Subject { return newSubject(t) }}
			f.subject = f.fresh()
			f.Store = f.subject.Open(t, Options{Collections: collections})
			defer f.close(t)
			c.test(t, f)
		})
	}
}

// close closes the store; it may be closed already.
func (f *fixture) close(t *testing.T) {
	if err := f.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
		t.Errorf("Close() = %v, want nil", err)
	}
}

// reopen closes the store and opens it anew on the same data.
func (f *fixture) reopen(t *testing.T, o Options) {
	t.Helper()
	f.close(t)
	if o.Collections == nil {
		o.Collections = collections
	}
	f.Store = f.subject.Open(t, o)
}

// apply applies a batch that has to succeed.
func (f *fixture) apply(t *testing.T, ops ...store.Op) {
	t.Helper()
	if err := f.Apply(f.ctx, ops); err != nil {
		t.Fatalf("Apply(%s) = %v, want nil", describe(ops), err)
	}
}

// get reads a document that has to exist.
func (f *fixture) get(t *testing.T, key store.Key) store.Doc {
	t.Helper()
	doc, err := f.Get(f.ctx, key)
	if err != nil {
		t.Fatalf("Get(%v) = %v, want a document", key, err)
	}
	return doc
}

// rev returns the revision of a document, 0 if it is missing.
func (f *fixture) rev(t *testing.T, key store.Key) store.Rev {
	t.Helper()
	docs, err := f.GetAll(f.ctx, []store.Key{key})
	if err != nil || len(docs) != 1 {
		t.Fatalf("GetAll(%v) = %v, %v, want one document", key, docs, err)
	}
	return docs[0].Rev
}

// feed opens a feed that is closed at the end of the test.
func (f *fixture) feed(t *testing.T, after store.Position) store.Feed {
	t.Helper()
	feed, err := f.Changes(f.ctx, after)
	if err != nil {
		t.Fatalf("Changes(%q) = %v, want a feed", after, err)
	}
	t.Cleanup(func() { feed.Close() })
	return feed
}

// read reads exactly n changes from a feed.
func (f *fixture) read(t *testing.T, feed store.Feed, n int) []store.Change {
	t.Helper()
	var all []store.Change
	for len(all) < n {
		changes, err := feed.Next(f.ctx)
		if err != nil {
			t.Fatalf("Next() = %v after %d changes, want %d", err, len(all), n)
		}
		if len(changes) == 0 {
			t.Fatalf("Next() = no changes and no error")
		}
		all = append(all, changes...)
	}
	if len(all) != n {
		t.Fatalf("feed has %d changes, want %d: %v", len(all), n, all)
	}
	return all
}

// machine and claim name documents of the suite.
func machine(format string, args ...any) store.Key {
	return store.Key{Collection: "machines", ID: fmt.Sprintf(format, args...)}
}

func claim(format string, args ...any) store.Key {
	return store.Key{Collection: "claims", ID: fmt.Sprintf(format, args...)}
}

// body returns a small JSON document.
func body(n int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"text":"größer"}`, n)
}

// describe shows a batch in a failure's text.
func describe(ops []store.Op) string {
	if len(ops) > 5 {
		return fmt.Sprintf("%d operations", len(ops))
	}
	var out string
	for i, op := range ops {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%s %s/%s", op.Kind, op.Collection, op.ID)
	}
	return out
}
