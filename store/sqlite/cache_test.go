package sqlite

// The test is inside the package to hold the cache at the moments that matter.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// cacheKey returns the key of a document.
func cacheKey(n int) store.Key { return store.Key{Collection: "machines", ID: fmt.Sprint(n)} }

func TestCacheKeepsWhatWasReadOnlyIfNoCommitBeganSince(t *testing.T) {
	key := cacheKey(1)
	old := store.Doc{Key: key, Rev: 1, Data: []byte("old")}
	changed := []written{{key: key, rev: 2, data: []byte("new")}}
	removed := []written{{key: key}}
	tests := []struct {
		name    string
		between func(c *cache)
		want    store.Rev
	}{
		{"nothing", func(*cache) {}, 1},
		{"a commit began", func(c *cache) { c.begin(changed) }, 0},
		{"a commit succeeded", func(c *cache) { c.begin(changed); c.end(changed, true) }, 2},
		{"a commit failed", func(c *cache) { c.begin(changed); c.end(changed, false) }, 0},
		{"a removal", func(c *cache) { c.begin(removed); c.end(removed, true) }, 0},
		{"another document's commit", func(c *cache) {
			other := []written{{key: cacheKey(2), rev: 2}}
			c.begin(other)
			c.end(other, true)
		}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache(1 << 20)
			_, reservation := c.get(key)
			if reservation == nil {
				t.Fatal("no reservation")
			}
			test.between(c)
			c.fill(reservation, old)
			if got, _ := c.get(key); got.Rev != test.want {
				t.Errorf("the cache has revision %d, want %d", got.Rev, test.want)
			}
		})
	}
}

func TestCacheTakesNothingOfADocumentThatIsBeingCommitted(t *testing.T) {
	key := cacheKey(1)
	c := newCache(1 << 20)
	changed := []written{{key: key, rev: 2, data: []byte("new")}}
	c.begin(changed)
	if _, reservation := c.get(key); reservation != nil {
		t.Error("a reservation although the document may change at any moment")
	}
	if _, entries := c.getAll([]store.Key{key}, make([]store.Doc, 1)); entries[0] != nil {
		t.Error("a reservation in bulk although the document may change at any moment")
	}
	c.end(changed, true)
	changed[0].data[0] = 'X' // the caller's own
	if d, _ := c.get(key); d.Rev != 2 || string(d.Data) != "new" {
		t.Errorf("after the commit the cache has %d, %q", d.Rev, d.Data)
	}
}

func TestCacheNoticesThatABulkReadWasOvertaken(t *testing.T) {
	keys := []store.Key{cacheKey(1), cacheKey(2)}
	first := []written{{key: keys[0], rev: 1, data: []byte("1")}}
	c := newCache(1 << 20)
	c.begin(first)
	c.end(first, true)
	docs := make([]store.Doc, 2)
	missing, entries := c.getAll(keys, docs)
	if len(missing) != 1 || missing[0] != 1 || docs[0].Rev != 1 {
		t.Fatalf("missing %v, found %v", missing, docs)
	}
	if !c.stillAll(keys, entries, missing) {
		t.Error("overtaken by nothing")
	}
	second := []written{{key: keys[0], rev: 2}, {key: keys[1], rev: 3}}
	c.begin(second)
	if c.stillAll(keys, entries, missing) {
		t.Error("a commit that has begun may be in what was read")
	}
}

func TestCacheStaysWithinItsLimit(t *testing.T) {
	const limit = 64 << 10
	c := newCache(limit)
	for n := range 1000 {
		key := cacheKey(n)
		_, reservation := c.get(key)
		c.fill(reservation, store.Doc{Key: key, Rev: 1, Data: []byte(strings.Repeat("x", n%(limit/4)))})
		sum := 0
		for key, e := range c.entries {
			sum += e.size(key)
		}
		if sum != c.bytes || sum > limit {
			t.Fatalf("%d bytes are kept, counted as %d, with a limit of %d", sum, c.bytes, limit)
		}
	}
	if len(c.entries) < 10 {
		t.Errorf("only %d documents are kept", len(c.entries))
	}
}

func TestGetAnswersFromMemoryUntilTheDocumentChanges(t *testing.T) {
	s := openTest(t, Config{Dir: t.TempDir()})
	put(t, s, 0, 1)
	d, err := s.Get(t.Context(), cacheKey(0))
	if err != nil {
		t.Fatal(err)
	}
	// Behind the store's back, which nobody may do, to see where answers come from.
	if _, err := s.writeConn.ExecContext(t.Context(), "UPDATE docs SET data = 'x'"); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Get(t.Context(), cacheKey(0)); err != nil || string(again.Data) != "{}" {
		t.Errorf("Get = %q, %v, want what memory has", again.Data, err)
	}
	if err := s.Apply(t.Context(), []store.Op{store.Remove(d.Key, d.Rev)}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Get(t.Context(), cacheKey(0)); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get = %v, %v after the removal", again, err)
	}
}

// TestReadsAreSnapshotsThatNeverGoBack writes a number of documents together
// while readers read them by id and in bulk, with caches of which some keep
// everything and some next to nothing.
func TestReadsAreSnapshotsThatNeverGoBack(t *testing.T) {
	for _, size := range []int{-1, 1 << 20, 20 * (entryBytes + 10)} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := openTest(t, Config{Dir: t.TempDir(), CacheBytes: size})
			const groups, members = 4, 8 // the members of a group are written together
			var all []store.Key
			put(t, s, 0, groups*members)
			for n := range groups * members {
				all = append(all, cacheKey(n))
			}
			ctx, stop := context.WithCancel(t.Context())
			var writers, readers sync.WaitGroup
			for g := range groups {
				keys := all[g*members : (g+1)*members]
				writers.Go(func() { rewrite(t, s, keys, 25) })
				readers.Go(func() { readTogether(ctx, t, s, keys) })
				readers.Go(func() { readAlone(ctx, t, s, keys) })
			}
			writers.Wait()
			stop()
			readers.Wait()
		})
	}
}

// rewrite writes the same number into all documents, again and again, and reads
// each time what it has written.
func rewrite(t *testing.T, s *Store, keys []store.Key, times int) {
	for n := range times {
		docs, err := s.GetAll(t.Context(), keys)
		if err != nil {
			t.Error(err)
			return
		}
		ops := make([]store.Op, len(docs))
		data := fmt.Appendf(nil, "%d", n+1)
		for i, d := range docs {
			ops[i] = store.Replace(d.Key, d.Rev, data, nil)
		}
		if err := s.Apply(t.Context(), ops); err != nil {
			t.Error(err) // nobody else writes them: a conflict means that a read was stale
			return
		}
		if d, err := s.Get(t.Context(), keys[n%len(keys)]); err != nil || string(d.Data) != string(data) {
			t.Errorf("read %q, %v after %q was written", d.Data, err, data)
			return
		}
	}
}

// readTogether checks that bulk reads see all documents of a batch or none.
func readTogether(ctx context.Context, t *testing.T, s *Store, keys []store.Key) {
	var last store.Rev
	for ctx.Err() == nil {
		docs, err := s.GetAll(t.Context(), keys)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range docs {
			if string(d.Data) != string(docs[0].Data) {
				t.Errorf("one snapshot has %q and %q", d.Data, docs[0].Data)
				return
			}
		}
		if docs[0].Rev < last {
			t.Errorf("revision %d after %d", docs[0].Rev, last)
			return
		}
		last = docs[0].Rev
	}
}

// readAlone checks that no read of any document of a batch goes back behind
// what was read of another one before.
func readAlone(ctx context.Context, t *testing.T, s *Store, keys []store.Key) {
	last := 0
	for i := 0; ctx.Err() == nil; i++ {
		d, err := s.Get(t.Context(), keys[i%len(keys)])
		if err != nil {
			t.Error(err)
			return
		}
		n := 0
		if string(d.Data) != "{}" {
			if err := json.Unmarshal(d.Data, &n); err != nil {
				t.Error(err)
				return
			}
		}
		if n < last {
			t.Errorf("read %d after %d", n, last)
			return
		}
		last = n
	}
}
