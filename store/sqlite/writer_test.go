package sqlite

// The test is inside the package to look at the tables.

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// openTest opens a store that is closed when the test ends.
func openTest(t *testing.T, c Config) *Store {
	t.Helper()
	c.Collections = []store.Collection{{Name: "machines", Indexes: []string{"model"}}}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// count runs a query for one number on the writing connection.
func count(t *testing.T, s *Store, query string) int {
	t.Helper()
	var n int
	if err := s.writeConn.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// put inserts documents one batch each.
func put(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		key := store.Key{Collection: "machines", ID: fmt.Sprint(n)}
		if err := s.Apply(t.Context(), []store.Op{store.Insert(key, []byte("{}"), nil)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommitsWaitForTheDisk(t *testing.T) {
	s := openTest(t, Config{Dir: t.TempDir()})
	if n := count(t, s, "PRAGMA synchronous"); n != 2 {
		t.Errorf("synchronous = %d, want 2 (FULL)", n)
	}
	var mode string
	if err := s.writeConn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode = %q, %v, want wal", mode, err)
	}
}

func TestChangesAreTrimmedInSteps(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Config{Dir: dir, History: 100})
	put(t, s, 0, 500)
	if n := count(t, s, "SELECT count(*) FROM changes"); n < 100 || n > 200 {
		t.Errorf("with a history of 100, %d changes are kept, want 100 to 200", n)
	}
	s.Close()
	s = openTest(t, Config{Dir: dir, History: 10_000})
	put(t, s, 500, 3500)
	kept := count(t, s, "SELECT count(*) FROM changes")
	if kept < 3000 {
		t.Errorf("with a history of 10,000, %d changes are kept, want all 3,000 new ones", kept)
	}
	s.Close()
	s = openTest(t, Config{Dir: dir, History: 1}) // much less than before
	put(t, s, 3500, 3501)
	if n := count(t, s, "SELECT count(*) FROM changes"); n < kept-trimStep-1 || n >= kept {
		t.Errorf("one commit trimmed from %d to %d, want one step of %d", kept, n, trimStep)
	}
	put(t, s, 3501, 3510)
	if n := count(t, s, "SELECT count(*) FROM changes"); n > 2 {
		t.Errorf("with a history of 1, %d changes are kept, want at most 2", n)
	}
}

func TestRemovalsLeaveNoIndexEntries(t *testing.T) {
	s := openTest(t, Config{Dir: t.TempDir()})
	key := store.Key{Collection: "machines", ID: "1"}
	steps := []store.Op{
		store.Insert(key, nil, map[string]string{"model": "a"}),
		store.Replace(key, 1, nil, map[string]string{"model": "b"}),
		store.Remove(key, 2),
	}
	for i, want := range []int{1, 1, 0} {
		if err := s.Apply(t.Context(), steps[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s, "SELECT count(*) FROM entries"); n != want {
			t.Errorf("after the %s there are %d index entries, want %d", steps[i].Kind, n, want)
		}
	}
}

// TestFullStoreGoesOn fills a store to its limit: large batches fail alone, and
// removing something makes room again.
func TestFullStoreGoesOn(t *testing.T) {
	s := openTest(t, Config{Dir: t.TempDir(), MaxBytes: 1 << 20, History: 1})
	large := bytes.Repeat([]byte("x"), 100_000)
	key := func(n int) store.Key { return store.Key{Collection: "machines", ID: fmt.Sprintf("large-%d", n)} }
	stored := 0
	var err error
	for ; err == nil && stored < 100; stored++ {
		err = s.Apply(t.Context(), []store.Op{store.Insert(key(stored), large, nil)})
	}
	stored--
	if !errors.Is(err, ErrFull) || stored < 5 {
		t.Fatalf("batch %d = %v, want the store full after 5 to 10", stored, err)
	}
	if docs, err := s.GetAll(t.Context(), []store.Key{key(0), key(stored)}); err != nil || docs[0].Rev == 0 || docs[1].Rev != 0 {
		t.Errorf("the full store reads %v, want only what was acknowledged", err)
	}
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			if n%4 == 0 {
				if err := s.Apply(t.Context(), []store.Op{store.Insert(key(100+n), bytes.Repeat(large, 3), nil)}); !errors.Is(err, ErrFull) {
					t.Errorf("a large batch = %v, want the store full", err)
				}
				return
			}
			small := store.Key{Collection: "machines", ID: fmt.Sprint(n)}
			if err := s.Apply(t.Context(), []store.Op{store.Insert(small, []byte("{}"), nil)}); err != nil {
				t.Errorf("a small batch beside large ones = %v, want nil", err)
			}
		})
	}
	wg.Wait()
	for n := range 3 {
		doc, err := s.Get(t.Context(), key(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(t.Context(), []store.Op{store.Remove(key(n), doc.Rev)}); err != nil {
			t.Fatalf("a removal from a full store = %v, want nil", err)
		}
	}
	if err := s.Apply(t.Context(), []store.Op{store.Insert(key(stored), large, nil)}); err != nil {
		t.Errorf("after removals, Apply = %v, want nil", err)
	}
}

func TestClaimIsGivenOnce(t *testing.T) {
	b := &batch{}
	if !b.claim() || b.claim() {
		t.Error("a batch was claimed twice, or not at all")
	}
}

func TestIDRange(t *testing.T) {
	for _, c := range []struct {
		prefix, after string
		from          string
		to            any
	}{
		{"", "", "", []byte{0}},
		{"", "k", "k\x00", []byte{0}},
		{"m:", "", "m:", "m;"},
		{"m:", "a", "m:", "m;"},
		{"m:", "m:1", "m:1\x00", "m;"},
		{"a\xff", "", "a\xff", "b"},
		{"\xff\xff", "", "\xff\xff", []byte{0}},
	} {
		from, to := idRange(store.Query{Prefix: c.prefix, After: c.after})
		if from != c.from || !reflect.DeepEqual(to, c.to) {
			t.Errorf("idRange(%q after %q) = %q, %q, want %q, %q", c.prefix, c.after, from, to, c.from, c.to)
		}
	}
}

// TestListingsFollowAnIndex makes sure that a listing does not read documents
// outside of its range.
func TestListingsFollowAnIndex(t *testing.T) {
	s := openTest(t, Config{Dir: t.TempDir()})
	for _, c := range []struct{ name, query, want string }{
		{"by prefix", listQuery,
			"SEARCH d USING INDEX docs_id (collection=? AND id>? AND id<?)"},
		{"by index", listIndexQuery,
			"SEARCH e USING PRIMARY KEY (collection=? AND name=? AND value=? AND id>? AND id<?); SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		rows, err := s.writeConn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.query, make([]any, strings.Count(c.query, "?"))...)
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step)
		}
		rows.Close()
		if got := strings.Join(steps, "; "); got != c.want {
			t.Errorf("the plan %s is %q, want %q", c.name, got, c.want)
		}
	}
}
