package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-project/slipway/store"
)

// BenchDocuments is how many documents of 1 kB the benchmarks work on. They are in
// collection "machines", with the value "m" of index "model".
const BenchDocuments = 10_000

// Kilobyte returns a body of 1 kB.
func Kilobyte() []byte { return append(bytes.Repeat([]byte("x"), 1022), `""`...) }

var benchIndex = map[string]string{"model": "m"}

// FillBench inserts the benchmarks' documents, and returns them.
func FillBench(b *testing.B, s store.Store) []store.Doc {
	b.Helper()
	keys := make([]store.Key, BenchDocuments)
	ops := make([]store.Op, BenchDocuments)
	for i := range keys {
		keys[i] = store.Key{Collection: "machines", ID: fmt.Sprintf("b1c9a5de-1f5e-4d8c-8a4c-0a4b9d5fbb00:%d", i)}
		ops[i] = store.Insert(keys[i], Kilobyte(), benchIndex)
	}
	for i := 0; i < len(ops); i += 1000 {
		if err := s.Apply(b.Context(), ops[i:i+1000]); err != nil {
			b.Fatal(err)
		}
	}
	docs, err := s.GetAll(b.Context(), keys)
	if err != nil {
		b.Fatal(err)
	}
	return docs
}

// BenchApply measures batches of one replacement, and of two replacements and an
// assertion, by one writer and by many; each has documents of its own and reads
// them before each batch. "batches/s" is the figure to look at. The names of
// the parts are the same for every store, for benchstat to compare.
func BenchApply(b *testing.B, open func(*testing.B) store.Store) {
	for _, size := range []int{1, 3} {
		for _, writers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("documents=%d/writers=%d", size, writers), func(b *testing.B) {
				s := open(b)
				docs := FillBench(b, s)
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for w := range writers {
					wg.Go(func() {
						own := docs[w*30 : w*30+size]
						for left.Add(-1) >= 0 {
							if err := rewrite(b.Context(), s, own); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
			})
		}
	}
}

// rewrite replaces documents in one batch; it only asserts the third.
func rewrite(ctx context.Context, s store.Store, docs []store.Doc) error {
	keys := make([]store.Key, len(docs))
	for i, d := range docs {
		keys[i] = d.Key
	}
	fresh, err := s.GetAll(ctx, keys)
	if err != nil {
		return err
	}
	ops := make([]store.Op, len(docs))
	for i, d := range fresh {
		ops[i] = store.Replace(d.Key, d.Rev, d.Data, benchIndex)
		if i == 2 {
			ops[i] = store.Assert(d.Key, d.Rev)
		}
	}
	return s.Apply(ctx, ops)
}

// BenchGet measures reads by id, by as many readers as there are processors.
func BenchGet(b *testing.B, s store.Store) {
	docs := FillBench(b, s)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Get(b.Context(), docs[i*7919%BenchDocuments].Key); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
}

// BenchList measures a page of 1,000 documents by index.
func BenchList(b *testing.B, s store.Store) {
	FillBench(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.List(b.Context(), store.Query{Collection: "machines", Index: "model", Value: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchFeed measures the way of one change from Apply to a waiting feed, which may
// be that of another opening of the same store.
func BenchFeed(b *testing.B, writes, follows store.Store) {
	doc := FillBench(b, writes)[0]
	feed, err := follows.Changes(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer feed.Close()
	at := doc.Rev
	b.ReportAllocs()
	for b.Loop() {
		if err := writes.Apply(b.Context(), []store.Op{store.Replace(doc.Key, at, doc.Data, benchIndex)}); err != nil {
			b.Fatal(err)
		}
		for last := at; at == last; {
			changes, err := feed.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, c := range changes {
				at = max(at, c.Rev)
			}
		}
	}
}
