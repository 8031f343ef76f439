package storetest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

func testReadBack(t *testing.T, f *fixture) {
	key := machine("uuid:0")
	f.apply(t, store.Insert(key, body(1), map[string]string{"model": "uuid"}))
	first := f.get(t, key)
	if first.Key != key || !bytes.Equal(first.Data, body(1)) || first.Rev <= 0 {
		t.Errorf("Get = %v %q at %d, want %v %q at a revision above 0", first.Key, first.Data, first.Rev, key, body(1))
	}
	large := []byte(`"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"`)
	f.apply(t, store.Replace(key, first.Rev, large, nil))
	second := f.get(t, key)
	if !bytes.Equal(second.Data, large) || second.Rev <= first.Rev {
		t.Errorf("after a replacement %d bytes at %d, want %d bytes above %d", len(second.Data), second.Rev, len(large), first.Rev)
	}
	if !bytes.Equal(first.Data, body(1)) {
		t.Errorf("a document read earlier became %q", first.Data)
	}
	f.apply(t, store.Remove(key, second.Rev))
	if _, err := f.Get(f.ctx, key); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get after a removal = %v, want not found", err)
	}
	f.apply(t) // no operations: nothing to do
}

func testMissing(t *testing.T, f *fixture) {
	there, missing := machine("there"), machine("missing")
	f.apply(t, store.Insert(there, body(1), nil))
	if _, err := f.Get(f.ctx, missing); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get(missing) = %v, want not found", err)
	}
	if _, err := f.Get(f.ctx, claim("there")); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get of the id in another collection = %v, want not found", err)
	}
	docs, err := f.GetAll(f.ctx, []store.Key{missing, there, missing, there})
	if err != nil || len(docs) != 4 {
		t.Fatalf("GetAll = %d documents, %v, want 4", len(docs), err)
	}
	for i, want := range []store.Key{missing, there, missing, there} {
		if docs[i].Key != want || (docs[i].Rev == 0) != (want == missing) {
			t.Errorf("GetAll[%d] = %v at %d, want %v", i, docs[i].Key, docs[i].Rev, want)
		}
	}
	if docs, err := f.GetAll(f.ctx, nil); err != nil || len(docs) != 0 {
		t.Errorf("GetAll of nothing = %v, %v, want nothing", docs, err)
	}
}

func testListPages(t *testing.T, f *fixture) {
	var want []string
	for _, id := range []string{"a", "a:1", "a:10", "a:2", "B", "b", "é", "z/lxd/0"} {
		f.apply(t, store.Insert(machine("%s", id), body(1), nil))
		want = append(want, id)
	}
	slices.Sort(want) // by bytes
	f.apply(t, store.Insert(claim("other"), body(1), nil))
	for _, limit := range []int{0, 1, 3, 8, 9} {
		if got := f.list(t, store.Query{Collection: "machines", Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("pages of %d list %q, want %q", limit, got, want)
		}
	}
	page, err := f.List(f.ctx, store.Query{Collection: "machines", After: "a:10", Limit: 2})
	if err != nil || len(page.Docs) != 2 || page.Docs[0].ID != "a:2" || page.Next != "b" {
		t.Errorf("page after a:10 = %v next %q, %v, want a:2 and b, next b", ids(page.Docs), page.Next, err)
	}
	if !bytes.Equal(page.Docs[0].Data, body(1)) || page.Docs[0].Rev != f.rev(t, machine("a:2")) || page.Docs[0].Key != machine("a:2") {
		t.Errorf("listed document = %+v, want it whole", page.Docs[0])
	}
}

func testListPrefix(t *testing.T, f *fixture) {
	for _, id := range []string{"m", "m:", "m:1", "m:1/lxd/0", "m;", "m9", "n:1", "M:1", "m:%", "m:_", "m:ÿ", "m:\U0010ffff"} {
		f.apply(t, store.Insert(machine("%s", id), body(1), nil))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"m:", []string{"m:", "m:%", "m:1", "m:1/lxd/0", "m:_", "m:ÿ", "m:\U0010ffff"}},
		{"m:1", []string{"m:1", "m:1/lxd/0"}},
		{"m:%", []string{"m:%"}},
		{"m:ÿ", []string{"m:ÿ"}},
		{"m:\U0010ffff", []string{"m:\U0010ffff"}},
		{"x", nil},
	} {
		for _, limit := range []int{0, 1, 2} {
			if got := f.list(t, store.Query{Collection: "machines", Prefix: c.prefix, Limit: limit}); !slices.Equal(got, c.want) {
				t.Errorf("prefix %q in pages of %d lists %q, want %q", c.prefix, limit, got, c.want)
			}
		}
	}
}

func testListIndex(t *testing.T, f *fixture) {
	check := func(index, value string, want ...string) {
		t.Helper()
		for _, limit := range []int{0, 1} {
			got := f.list(t, store.Query{Collection: "machines", Index: index, Value: value, Limit: limit})
			if !slices.Equal(got, want) {
				t.Errorf("%s = %q lists %q, want %q", index, value, got, want)
			}
		}
	}
	f.apply(t,
		store.Insert(machine("1"), body(1), map[string]string{"model": "m", "zone": "east"}),
		store.Insert(machine("2"), body(2), map[string]string{"model": "m", "zone": "west"}),
		store.Insert(machine("3"), body(3), map[string]string{"model": "n"}),
		store.Insert(machine("4"), body(4), map[string]string{"zone": ""}))
	check("model", "m", "1", "2")
	check("model", "n", "3")
	check("zone", "west", "2")
	check("zone", "", "4")
	check("zone", "m")
	f.apply(t,
		store.Replace(machine("1"), f.rev(t, machine("1")), body(5), map[string]string{"model": "n", "zone": "east"}),
		store.Replace(machine("2"), f.rev(t, machine("2")), body(6), nil),
		store.Remove(machine("3"), f.rev(t, machine("3"))))
	check("model", "m")
	check("model", "n", "1")
	check("zone", "east", "1")
	check("zone", "west")
	odd := "a&b=c%20;é \"'+"
	f.apply(t, store.Insert(machine("3"), body(7), map[string]string{"model": odd}))
	check("model", odd, "3")
	f.apply(t, store.Replace(machine("3"), f.rev(t, machine("3")), body(8), map[string]string{"model": "m"}))
	check("model", odd)
	check("model", "m", "3")
}

func testUndeclared(t *testing.T, f *fixture) {
	nowhere := store.Key{Collection: "nowhere", ID: "1"}
	if _, err := f.Get(f.ctx, nowhere); !errors.Is(err, errors.NotValid) {
		t.Errorf("Get = %v, want not valid", err)
	}
	if _, err := f.GetAll(f.ctx, []store.Key{machine("1"), nowhere}); !errors.Is(err, errors.NotValid) {
		t.Errorf("GetAll = %v, want not valid", err)
	}
	for _, q := range []store.Query{{Collection: "nowhere"}, {Collection: "claims", Index: "model"}, {}} {
		if _, err := f.List(f.ctx, q); !errors.Is(err, errors.NotValid) {
			t.Errorf("List(%+v) = %v, want not valid", q, err)
		}
	}
}

func testManyDocuments(t *testing.T, f *fixture) {
	const documents, batch = 10_000, 500
	feed := f.feed(t, "")
	keys := make([]store.Key, documents)
	for i := range keys {
		keys[i] = machine("model:%05d", i)
	}
	for part := range slices.Chunk(keys, batch) {
		ops := make([]store.Op, len(part))
		for i, key := range part {
			ops[i] = store.Insert(key, body(i), map[string]string{"model": "model"})
		}
		f.apply(t, ops...)
	}
	for _, q := range []store.Query{
		{Collection: "machines"},
		{Collection: "machines", Prefix: "model:", Limit: 700},
		{Collection: "machines", Index: "model", Value: "model"},
	} {
		got := f.list(t, q)
		if len(got) != documents || !slices.IsSorted(got) {
			t.Errorf("%+v lists %d documents, sorted %v, want %d", q, len(got), slices.IsSorted(got), documents)
		}
	}
	page, err := f.List(f.ctx, store.Query{Collection: "machines"})
	if err != nil || len(page.Docs) != 1000 || page.Next != page.Docs[999].ID {
		t.Errorf("the first page has %d documents, %v, want 1,000", len(page.Docs), err)
	}
	docs, err := f.GetAll(f.ctx, keys)
	if err != nil || len(docs) != documents {
		t.Fatalf("GetAll = %d documents, %v, want %d", len(docs), err, documents)
	}
	for i, doc := range docs {
		if doc.Key != keys[i] || doc.Rev == 0 {
			t.Fatalf("GetAll[%d] = %v at %d, want %v", i, doc.Key, doc.Rev, keys[i])
		}
	}
	f.read(t, feed, documents)
}

// list follows a listing to its end and returns the ids.
func (f *fixture) list(t *testing.T, q store.Query) []string {
	t.Helper()
	var all []string
	for {
		page, err := f.List(f.ctx, q)
		if err != nil {
			t.Fatalf("List(%+v) = %v, want a page", q, err)
		}
		all = append(all, ids(page.Docs)...)
		if page.Next == "" {
			return all
		}
		if len(page.Docs) == 0 || page.Next <= q.After {
			t.Fatalf("List(%+v) has %d documents and next %q: the listing would not end", q, len(page.Docs), page.Next)
		}
		q.After = page.Next
	}
}

// ids returns the ids of documents.
func ids(docs []store.Doc) []string {
	var out []string
	for _, d := range docs {
		out = append(out, d.ID)
	}
	return out
}
