package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

func testConflicts(t *testing.T, f *fixture) {
	there, missing := machine("there"), machine("missing")
	f.apply(t, store.Insert(there, body(1), nil))
	old := f.rev(t, there)
	f.apply(t, store.Replace(there, old, body(2), nil))
	now := f.rev(t, there)
	for _, c := range []struct {
		name string
		op   store.Op
	}{
		{"insert of an existing document", store.Insert(there, body(3), nil)},
		{"replace at an old revision", store.Replace(there, old, body(3), nil)},
		{"replace at a future revision", store.Replace(there, now+1, body(3), nil)},
		{"replace of a missing document", store.Replace(missing, now, body(3), nil)},
		{"remove at an old revision", store.Remove(there, old)},
		{"remove of a missing document", store.Remove(missing, now)},
		{"assert of an old revision", store.Assert(there, old)},
		{"assert of a missing document", store.Assert(missing, now)},
		{"assert missing of an existing document", store.AssertMissing(there)},
	} {
		if err := f.Apply(f.ctx, []store.Op{c.op}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: Apply = %v, want a conflict", c.name, err)
		}
	}
	if got := f.rev(t, there); got != now {
		t.Errorf("the document is at %d after refused batches, want %d", got, now)
	}
	f.apply(t, store.Assert(there, now), store.AssertMissing(missing))
	if got := f.rev(t, there); got != now {
		t.Errorf("an assertion moved the document from %d to %d", now, got)
	}
}

func testFailingBatch(t *testing.T, f *fixture) {
	a, b, c := machine("a"), machine("b"), claim("c")
	f.apply(t, store.Insert(a, body(1), map[string]string{"model": "m"}), store.Insert(b, body(1), nil))
	feed := f.feed(t, "")
	revA, revB := f.rev(t, a), f.rev(t, b)
	good := []store.Op{
		store.Replace(a, revA, body(2), map[string]string{"model": "n"}),
		store.Remove(b, revB),
		store.Insert(c, body(2), nil),
	}
	for i, bad := range []store.Op{store.Assert(machine("x"), 1), store.Insert(machine("x"), nil, map[string]string{"none": "x"}), store.AssertMissing(store.Key{})} {
		for at := range len(good) + 1 { // the failing operation first, between, last
			ops := append(append(append([]store.Op(nil), good[:at]...), bad), good[at:]...)
			if err := f.Apply(f.ctx, ops); err == nil {
				t.Fatalf("Apply with failing operation %d at %d = nil, want an error", i, at)
			}
		}
	}
	if f.rev(t, a) != revA || f.rev(t, b) != revB || f.rev(t, c) != 0 {
		t.Errorf("a failed batch left something: revisions %d %d %d, want %d %d 0", f.rev(t, a), f.rev(t, b), f.rev(t, c), revA, revB)
	}
	if got := f.list(t, store.Query{Collection: "machines", Index: "model", Value: "n"}); len(got) != 0 {
		t.Errorf("a failed batch left index entries of %v", got)
	}
	f.apply(t, good...)
	changes := f.read(t, feed, 3)
	for i, want := range []store.Key{a, b, c} {
		if changes[i].Key != want {
			t.Errorf("change %d is of %v, want %v: only the good batch, in its order", i, changes[i].Key, want)
		}
	}
}

func testMalformed(t *testing.T, f *fixture) {
	key := machine("1")
	for _, c := range []struct {
		name string
		ops  []store.Op
	}{
		{"no id", []store.Op{store.Insert(store.Key{Collection: "machines"}, body(1), nil)}},
		{"undeclared collection", []store.Op{store.Insert(store.Key{Collection: "nowhere", ID: "1"}, body(1), nil)}},
		{"undeclared index", []store.Op{store.Insert(key, body(1), map[string]string{"nothing": "x"})}},
		{"index of another collection", []store.Op{store.Insert(claim("1"), body(1), map[string]string{"model": "x"})}},
		{"written twice", []store.Op{store.Insert(key, body(1), nil), store.Insert(key, body(2), nil)}},
		{"written and asserted", []store.Op{store.Insert(key, body(1), nil), store.AssertMissing(key)}},
		{"no kind", []store.Op{{Key: key}}},
		{"replace at no revision", []store.Op{store.Replace(key, 0, body(1), nil)}},
		{"remove at no revision", []store.Op{store.Remove(key, 0)}},
		{"assert at no revision", []store.Op{store.Assert(key, 0)}},
	} {
		ops := append([]store.Op{store.Insert(machine("good"), body(1), nil)}, c.ops...)
		if err := f.Apply(f.ctx, ops); !errors.Is(err, errors.NotValid) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: Apply = %v, want not valid", c.name, err)
		}
	}
	if f.rev(t, machine("good")) != 0 || f.rev(t, key) != 0 {
		t.Error("a malformed batch left a document")
	}
}

func testRevisions(t *testing.T, f *fixture) {
	feed := f.feed(t, "")
	key := machine("again")
	var used []store.Rev
	use := func() {
		rev := f.rev(t, key)
		if n := len(used); n > 0 && rev <= used[n-1] {
			t.Errorf("revision %d after %v, want a greater one", rev, used)
		}
		used = append(used, rev)
	}
	for i := range 3 {
		f.apply(t, store.Insert(key, body(i), nil))
		use()
		f.apply(t, store.Replace(key, used[len(used)-1], body(i), nil))
		use()
		last := used[len(used)-1]
		f.apply(t, store.Remove(key, last))
		used = append(used, last+1) // the removal's
		f.apply(t, store.Insert(machine("other-%d", i), body(i), nil))
		if i == 1 {
			f.reopen(t, Options{})
			feed = f.feed(t, "") // the old one ended with its store
			used = used[len(used)-1:]
		}
	}
	for i, c := range f.read(t, feed, 4) {
		if c.Key == key && (c.Rev != used[i+1] || c.Removed != (i == 2)) {
			t.Errorf("change %d is %+v, want revision %d", i, c, used[i+1])
		}
	}
}

func testRace(t *testing.T, f *fixture) {
	const racers, rounds = 8, 20
	key := machine("counter")
	f.apply(t, store.Insert(key, body(0), nil))
	for round := range rounds {
		rev := f.rev(t, key)
		won := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				won[i] = f.Apply(f.ctx, []store.Op{
					store.Replace(key, rev, body(i), nil),
					store.Insert(claim("%d-%d", round, i), body(i), nil),
				})
			})
		}
		wg.Wait()
		winners := 0
		for _, err := range won {
			switch {
			case err == nil:
				winners++
			case !errors.Is(err, store.ErrConflict):
				t.Fatalf("Apply = %v, want nil or a conflict", err)
			}
		}
		claims := f.list(t, store.Query{Collection: "claims", Prefix: fmt.Sprintf("%d-", round)})
		if winners != 1 || len(claims) != 1 {
			t.Fatalf("round %d has %d winners and %d claims, want 1 and 1", round, winners, len(claims))
		}
	}
}

// testSnapshot checks that readers never see half of a batch.
func testSnapshot(t *testing.T, f *fixture) {
	const rounds = 150
	keys := []store.Key{machine("a"), machine("b"), claim("c"), machine("d")}
	insert := make([]store.Op, len(keys))
	for i, key := range keys {
		insert[i] = store.Insert(key, body(0), nil)
	}
	f.apply(t, insert...)
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				docs, err := f.GetAll(f.ctx, keys)
				if err != nil {
					t.Errorf("GetAll = %v", err)
					return
				}
				for _, d := range docs {
					if string(d.Data) != string(docs[0].Data) {
						t.Errorf("GetAll shows half a batch: %s beside %s", docs[0].Data, d.Data)
						return
					}
				}
			}
		})
	}
	defer close(done)
	for n := range rounds {
		docs, err := f.GetAll(f.ctx, keys)
		if err != nil {
			t.Fatalf("GetAll = %v", err)
		}
		ops := make([]store.Op, len(keys))
		for i, d := range docs {
			ops[i] = store.Replace(d.Key, d.Rev, body(n), nil)
		}
		f.apply(t, ops...)
	}
}
