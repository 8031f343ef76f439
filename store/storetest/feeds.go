package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

func testFeedFromNow(t *testing.T, f *fixture) {
	f.apply(t, store.Insert(machine("before"), body(1), nil))
	feed, second := f.feed(t, ""), f.feed(t, "")
	key := machine("after")
	f.apply(t, store.Insert(key, body(1), nil))
	rev := f.rev(t, key)
	f.apply(t, store.Remove(key, rev))
	for _, feed := range []store.Feed{feed, second} {
		got := f.read(t, feed, 2)
		if got[0].Key != key || got[0].Rev != rev || got[0].Removed {
			t.Errorf("first change = %+v, want the insertion at %d", got[0], rev)
		}
		if got[1].Key != key || got[1].Rev != rev+1 || !got[1].Removed {
			t.Errorf("second change = %+v, want the removal at %d", got[1], rev+1)
		}
		if got[0].Position == "" || got[0].Position == got[1].Position {
			t.Errorf("positions %q and %q, want two", got[0].Position, got[1].Position)
		}
	}
}

// testFeedConcurrent checks that a feed has every write exactly once and each
// document's writes in order, while 16 writers work on shared documents.
func testFeedConcurrent(t *testing.T, f *fixture) {
	const writers, batches = 16, 15
	shared := machine("shared")
	f.apply(t, store.Insert(shared, body(0), nil))
	feed := f.feed(t, "")
	var wg sync.WaitGroup
	defer wg.Wait() // also if the feed does not have everything in time
	for w := range writers {
		wg.Go(func() {
			for n := range batches {
				if err := f.writeOne(w, n, shared); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	// Each batch inserts one document, replaces the shared one, and replaces or
	// inserts the writer's own.
	changes := f.read(t, feed, writers*batches*3)
	wg.Wait()
	seen := make(map[store.Key]int)
	last := make(map[store.Key]store.Rev)
	positions := make(map[store.Position]bool)
	for _, c := range changes {
		if c.Removed || c.Rev <= last[c.Key] {
			t.Errorf("change %+v follows revision %d", c, last[c.Key])
		}
		if positions[c.Position] {
			t.Errorf("position %q comes twice", c.Position)
		}
		positions[c.Position] = true
		last[c.Key] = c.Rev
		seen[c.Key]++
	}
	if seen[shared] != writers*batches {
		t.Errorf("the shared document has %d changes, want %d", seen[shared], writers*batches)
	}
	for w := range writers {
		if n := seen[claim("own-%d", w)]; n != batches {
			t.Errorf("the document of writer %d has %d changes, want %d", w, n, batches)
		}
		for n := range batches {
			if got := seen[machine("new-%d-%d", w, n)]; got != 1 {
				t.Errorf("the insertion %d of writer %d is there %d times, want once", n, w, got)
			}
		}
	}
	for key, rev := range last {
		if got := f.rev(t, key); got != rev {
			t.Errorf("the last change of %v has revision %d, the document %d", key, rev, got)
		}
	}
}

// writeOne applies one batch of testFeedConcurrent, as often as it takes.
func (f *fixture) writeOne(w, n int, shared store.Key) error {
	own := claim("own-%d", w)
	for { // not store.Run: sixteen writers of one document need more attempts
		docs, err := f.GetAll(f.ctx, []store.Key{shared, own})
		if err != nil {
			return err
		}
		ops := []store.Op{
			store.Insert(machine("new-%d-%d", w, n), body(n), nil),
			store.Replace(shared, docs[0].Rev, body(n), nil),
			store.Insert(own, body(n), nil),
		}
		if docs[1].Rev != 0 {
			ops[2] = store.Replace(own, docs[1].Rev, body(n), nil)
		}
		err = f.Apply(f.ctx, ops)
		if err == nil || !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

func testFeedResumed(t *testing.T, f *fixture) {
	feed := f.feed(t, "")
	const documents = 30
	for i := range documents {
		f.apply(t, store.Insert(machine("%02d", i), body(i), nil))
	}
	all := f.read(t, feed, documents)
	check := func() {
		t.Helper()
		for _, from := range []int{0, 1, documents / 2, documents - 2} {
			got := f.read(t, f.feed(t, all[from].Position), documents-from-1)
			for i, c := range got {
				if c != all[from+1+i] {
					t.Fatalf("resumed after change %d: %+v, want %+v", from, c, all[from+1+i])
				}
			}
		}
	}
	check()
	f.reopen(t, Options{})
	check()
	// A feed resumed at the end waits for what is new.
	end := f.feed(t, all[documents-1].Position)
	f.apply(t, store.Insert(machine("new"), body(1), nil))
	if got := f.read(t, end, 1); got[0].Key != machine("new") {
		t.Errorf("resumed at the end: %+v, want the new document", got[0])
	}
}

func testForeignPosition(t *testing.T, f *fixture) {
	feed := f.feed(t, "")
	f.apply(t, store.Insert(machine("1"), body(1), nil))
	position := f.read(t, feed, 1)[0].Position

	other := f.fresh().Open(t, Options{Collections: collections})
	defer other.Close()
	if err := other.Apply(f.ctx, []store.Op{store.Insert(machine("1"), body(1), nil)}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []store.Position{position, "nonsense", "1", position + "x"} {
		if _, err := other.Changes(f.ctx, p); !errors.Is(err, errors.NotValid) {
			t.Errorf("Changes(%q) of another store = %v, want not valid", p, err)
		}
	}
}

// testHistoryLost checks both ways to be too late: a position that is no longer
// kept, and an open feed that was not read in time.
func testHistoryLost(t *testing.T, f *fixture) {
	const history = 50
	f.reopen(t, Options{History: history})
	slow, first := f.feed(t, ""), f.feed(t, "")
	key := machine("busy")
	f.apply(t, store.Insert(key, body(0), nil))
	position := f.read(t, first, 1)[0].Position
	for n := 1; ; n++ {
		f.apply(t, store.Replace(key, f.rev(t, key), body(n), nil))
		if n == history/2 { // well within what is kept
			f.read(t, f.feed(t, position), n)
		}
		if n < history {
			continue
		}
		if f.subject.LoseHistory != nil {
			f.subject.LoseHistory(t, f.Store)
		}
		feed, err := f.Changes(f.ctx, position)
		if errors.Is(err, store.ErrHistoryLost) {
			break
		}
		if err != nil {
			t.Fatalf("Changes = %v, want a feed or history lost", err)
		}
		feed.Close()
		if n > 200*history {
			t.Fatalf("history is still kept after %d changes", n)
		}
	}
	if changes, err := slow.Next(f.ctx); !errors.Is(err, store.ErrHistoryLost) {
		t.Errorf("Next of a feed that was too slow = %d changes, %v, want history lost", len(changes), err)
	}
	// The way on: subscribe anew, then list.
	again := f.feed(t, "")
	f.apply(t, store.Remove(key, f.rev(t, key)))
	if got := f.read(t, again, 1); !got[0].Removed {
		t.Errorf("the new feed has %+v, want the removal", got[0])
	}
}

func testClosedFeed(t *testing.T, f *fixture) {
	feed := f.feed(t, "")
	result := make(chan error, 1)
	go func() {
		_, err := feed.Next(f.ctx)
		result <- err
	}()
	if err := feed.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if err := <-result; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a waiting Next = %v, want closed", err)
	}
	f.apply(t, store.Insert(machine("1"), body(1), nil))
	if _, err := feed.Next(f.ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Next after Close = %v, want closed", err)
	}
	if err := feed.Close(); err != nil {
		t.Errorf("a second Close() = %v, want nil", err)
	}
}

func testClosedStore(t *testing.T, f *fixture) {
	key := machine("1")
	f.apply(t, store.Insert(key, body(1), nil))
	feed := f.feed(t, "")
	result := make(chan error, 1)
	go func() {
		_, err := feed.Next(f.ctx)
		result <- err
	}()
	if err := f.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if err := <-result; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a waiting Next = %v, want closed", err)
	}
	for name, err := range f.callAll(f.ctx, key) {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close = %v, want closed", name, err)
		}
	}
	f.Close() // a second Close must not panic or hang
}

func testCancelled(t *testing.T, f *fixture) {
	key := machine("1")
	feed := f.feed(t, "")
	ctx, cancel := context.WithCancel(f.ctx)
	waiting := make(chan error, 1)
	go func() {
		_, err := feed.Next(ctx)
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a waiting Next = %v, want cancelled", err)
	}
	for name, err := range f.callAll(ctx, key) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want cancelled", name, err)
		}
	}
	if f.rev(t, key) != 0 {
		t.Error("a batch was applied although its context had been cancelled before")
	}
	f.apply(t, store.Insert(key, body(1), nil))
	f.read(t, feed, 1) // the feed is still whole
}

// callAll makes every call once and returns its error by name.
func (f *fixture) callAll(ctx context.Context, key store.Key) map[string]error {
	errs := make(map[string]error)
	_, errs["Get"] = f.Get(ctx, key)
	_, errs["GetAll"] = f.GetAll(ctx, []store.Key{key})
	_, errs["List"] = f.List(ctx, store.Query{Collection: key.Collection})
	_, errs["Changes"] = f.Changes(ctx, "")
	errs["Apply"] = f.Apply(ctx, []store.Op{store.Insert(key, body(1), nil)})
	return errs
}

func testReopened(t *testing.T, f *fixture) {
	a, b := machine("a"), machine("b")
	f.apply(t, store.Insert(a, body(1), map[string]string{"zone": "z"}), store.Insert(b, body(2), nil))
	before := f.get(t, a)
	f.reopen(t, Options{})
	after := f.get(t, a)
	if after.Rev != before.Rev || string(after.Data) != string(before.Data) {
		t.Errorf("opened again: %q at %d, want %q at %d", after.Data, after.Rev, before.Data, before.Rev)
	}
	if got := f.list(t, store.Query{Collection: "machines", Index: "zone", Value: "z"}); len(got) != 1 {
		t.Errorf("opened again, the index has %v, want one document", got)
	}
	// A collection more, and one index less.
	more := []store.Collection{{Name: "machines", Indexes: []string{"zone"}}, {Name: "claims"}, {Name: "hosts"}}
	f.reopen(t, Options{Collections: more})
	f.apply(t,
		store.Insert(store.Key{Collection: "hosts", ID: "a"}, body(1), nil),
		store.Replace(a, f.rev(t, a), body(3), map[string]string{"zone": "y"}))
	if got := f.list(t, store.Query{Collection: "machines", Index: "zone", Value: "y"}); len(got) != 1 {
		t.Errorf("with other collections, the index has %v, want one document", got)
	}
}
