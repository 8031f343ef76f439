package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/store"
)

// model is what a store should contain, in the plainest form.
type model struct {
	prefix string // of all ids, so that runs on one store do not meet
	docs   map[store.Key]modelDoc
	used   map[store.Key]store.Rev // the greatest revision so far, also of removed documents
	writes []store.Op              // what the feed should show
}

// modelDoc is one document of the model.
type modelDoc struct {
	rev   store.Rev
	data  string
	index map[string]string
}

// testModel applies random batches to the store and to a model, and compares
// every answer.
func testModel(t *testing.T, f *fixture) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &model{prefix: fmt.Sprintf("run%d:", run), docs: make(map[store.Key]modelDoc), used: make(map[store.Key]store.Rev)}
		feed, err := f.Changes(f.ctx, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer feed.Close()
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			m.step(rt, f)
		}
		m.compareFeed(rt, f, feed)
		m.compareLists(rt, f)
	})
}

// step applies one random batch to both.
func (m *model) step(rt *rapid.T, f *fixture) {
	ops := m.batch(rt)
	holds := true
	for _, op := range ops {
		holds = holds && m.docs[op.Key].rev == op.Rev
	}
	err := f.Apply(f.ctx, ops)
	if holds && err != nil || !holds && !errors.Is(err, store.ErrConflict) {
		rt.Fatalf("Apply(%s) = %v, want success %v", describe(ops), err, holds)
	}
	if holds {
		for _, op := range ops {
			m.write(op)
		}
	}
	keys := make([]store.Key, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	docs, err := f.GetAll(f.ctx, keys)
	if err != nil {
		rt.Fatal(err)
	}
	for i, doc := range docs {
		m.compareDoc(rt, ops[i], holds, doc)
	}
}

// compareDoc compares one document after a batch, and takes over its revision.
func (m *model) compareDoc(rt *rapid.T, op store.Op, applied bool, doc store.Doc) {
	want, exists := m.docs[doc.Key]
	if exists != (doc.Rev != 0) || string(doc.Data) != want.data {
		rt.Fatalf("after %s %v is %q at %d, want %q", op.Kind, doc.Key, doc.Data, doc.Rev, want.data)
	}
	if !exists {
		return
	}
	if applied && op.Writes() {
		if doc.Rev <= m.used[doc.Key] {
			rt.Fatalf("revision %d of %v was used before (%d)", doc.Rev, doc.Key, m.used[doc.Key])
		}
		want.rev = doc.Rev
		m.docs[doc.Key] = want
		m.used[doc.Key] = doc.Rev
		return
	}
	if doc.Rev != want.rev {
		rt.Fatalf("%v went from %d to %d without a write", doc.Key, want.rev, doc.Rev)
	}
}

// batch draws up to four operations on different documents, most of them with
// assertions that hold.
func (m *model) batch(rt *rapid.T) []store.Op {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 4, rapid.ID[string]).Draw(rt, "names")
	ops := make([]store.Op, len(names))
	for i, name := range names {
		key := machine("%s%s", m.prefix, name)
		if name > "c" {
			key = claim("%s%s", m.prefix, name)
		}
		ops[i] = m.op(rt, key)
	}
	return ops
}

// op draws one operation on a document.
func (m *model) op(rt *rapid.T, key store.Key) store.Op {
	rev := m.docs[key].rev
	if rapid.IntRange(0, 7).Draw(rt, "wrong") == 0 {
		rev++
	}
	data := []byte(fmt.Sprintf(`{"v":%d}`, rapid.IntRange(0, 99).Draw(rt, "data")))
	var index map[string]string
	if key.Collection == "machines" {
		index = rapid.MapOf(rapid.SampledFrom([]string{"model", "zone"}), rapid.SampledFrom([]string{"", "x", "y"})).Draw(rt, "index")
	}
	kind := rapid.IntRange(0, 3).Draw(rt, "kind")
	switch {
	case rev == 0 && kind == 0:
		return store.AssertMissing(key)
	case rev == 0:
		return store.Insert(key, data, index)
	case kind == 0:
		return store.Assert(key, rev)
	case kind == 1:
		return store.Remove(key, rev)
	default:
		return store.Replace(key, rev, data, index)
	}
}

// write changes the model; the revision of what is written is not known yet.
func (m *model) write(op store.Op) {
	if !op.Writes() {
		return
	}
	m.writes = append(m.writes, op)
	if op.Kind == store.OpRemove {
		delete(m.docs, op.Key)
		m.used[op.Key] = op.Rev + 1
		return
	}
	m.docs[op.Key] = modelDoc{data: string(op.Data), index: op.Index}
}

// compareFeed checks that the feed shows exactly the writes, in order.
func (m *model) compareFeed(rt *rapid.T, f *fixture, feed store.Feed) {
	var got []store.Change
	for len(got) < len(m.writes) {
		changes, err := feed.Next(f.ctx)
		if err != nil {
			rt.Fatalf("Next = %v after %d of %d changes", err, len(got), len(m.writes))
		}
		got = append(got, changes...)
	}
	if len(got) != len(m.writes) {
		rt.Fatalf("feed has %d changes, want %d", len(got), len(m.writes))
	}
	for i, op := range m.writes {
		if got[i].Key != op.Key || got[i].Removed != (op.Kind == store.OpRemove) {
			rt.Fatalf("change %d is %+v, want the %s of %v", i, got[i], op.Kind, op.Key)
		}
	}
}

// compareLists checks listings by prefix and by each index value.
func (m *model) compareLists(rt *rapid.T, f *fixture) {
	limit := rapid.IntRange(0, 3).Draw(rt, "limit")
	for _, q := range []store.Query{
		{Collection: "machines", Prefix: m.prefix},
		{Collection: "claims", Prefix: m.prefix},
		{Collection: "machines", Index: "model", Value: "x"},
		{Collection: "machines", Index: "zone", Value: ""},
	} {
		var want, got []string
		for key, doc := range m.docs {
			value, indexed := doc.index[q.Index]
			if key.Collection == q.Collection && (q.Index == "" || indexed && value == q.Value) {
				want = append(want, key.ID)
			}
		}
		slices.Sort(want)
		q.Limit = limit
		for {
			page, err := f.List(f.ctx, q)
			if err != nil {
				rt.Fatal(err)
			}
			for _, doc := range page.Docs {
				if strings.HasPrefix(doc.ID, m.prefix) { // by index, other runs' documents are there too
					got = append(got, doc.ID)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%+v lists %q, want %q", q, got, want)
		}
	}
}
