package mongo_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// These benchmarks run on the double, in memory and in this process: they
// measure driver, translation and store, not MongoDB. No disk is written.

// benchDocuments is how many documents of 1 kB the benchmarks work on.
const benchDocuments = 10_000

func kilobyte() []byte { return append(bytes.Repeat([]byte("x"), 1022), `""`...) }

// benchStore opens a store with the documents.
func benchStore(b *testing.B) (*mongo.Store, []store.Doc) {
	b.Helper()
	server := newDouble(b, mongotest.Config{})
	s := open(b, mongo.Config{URL: server.URL("bench")})
	keys := make([]store.Key, benchDocuments)
	ops := make([]store.Op, benchDocuments)
	for i := range keys {
		keys[i] = key("b1c9a5de-1f5e-4d8c-8a4c-0a4b9d5fbb00:%d", i)
		ops[i] = store.Insert(keys[i], kilobyte(), map[string]string{"model": "m"})
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
	return s, docs
}

// BenchmarkApplyOnDouble measures batches of one replacement and of three (two
// replacements and an assertion: a transaction), by one writer and by many; the
// figure to look at is batches/s, each with the read that it builds on.
func BenchmarkApplyOnDouble(b *testing.B) {
	for _, size := range []int{1, 3} {
		for _, writers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("documents=%d/writers=%d", size, writers), func(b *testing.B) {
				s, docs := benchStore(b)
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for w := range writers {
					wg.Go(func() {
						own := docs[w*30 : w*30+3]
						for left.Add(-1) >= 0 {
							if err := writeBatch(b.Context(), s, own[:size]); err != nil {
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

func writeBatch(ctx context.Context, s store.Store, docs []store.Doc) error {
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
		ops[i] = store.Replace(d.Key, d.Rev, d.Data, map[string]string{"model": "m"})
		if i == 2 {
			ops[i] = store.Assert(d.Key, d.Rev)
		}
	}
	return s.Apply(ctx, ops)
}

// BenchmarkGetOnDouble measures reads by id, by as many readers as there are
// processors.
func BenchmarkGetOnDouble(b *testing.B) {
	s, docs := benchStore(b)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Get(b.Context(), docs[i*7919%benchDocuments].Key); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
}

// BenchmarkListOnDouble measures a page of 1,000 documents by index.
func BenchmarkListOnDouble(b *testing.B) {
	s, _ := benchStore(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.List(b.Context(), store.Query{Collection: "machines", Index: "model", Value: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFeedOnDouble measures the way of one change from Apply to a waiting
// feed of another opening of the store.
func BenchmarkFeedOnDouble(b *testing.B) {
	server := newDouble(b, mongotest.Config{})
	s := open(b, mongo.Config{URL: server.URL("bench")})
	f := feed(b, open(b, mongo.Config{URL: server.URL("bench")}), "")
	apply(b, s, store.Insert(key("a"), kilobyte(), nil))
	at := rev(b, s, key("a"))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Apply(b.Context(), []store.Op{store.Replace(key("a"), at, kilobyte(), nil)}); err != nil {
			b.Fatal(err)
		}
		for last := at; at == last; {
			changes, err := f.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, c := range changes {
				at = max(at, c.Rev)
			}
		}
	}
}
