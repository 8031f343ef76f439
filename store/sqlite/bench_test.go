package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

// documents is how many documents of 1 kB the benchmarks work on.
const documents = 10_000

// benchStore opens a store with the documents and returns their keys.
func benchStore(b *testing.B) (*sqlite.Store, []store.Doc) {
	b.Helper()
	return benchStoreIn(b, b.TempDir())
}

// benchStoreIn does the same in a directory.
func benchStoreIn(b *testing.B, dir string) (*sqlite.Store, []store.Doc) {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: dir, Collections: collections})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	keys := make([]store.Key, documents)
	ops := make([]store.Op, documents)
	for i := range keys {
		keys[i] = store.Key{Collection: "machines", ID: fmt.Sprintf("b1c9a5de-1f5e-4d8c-8a4c-0a4b9d5fbb00:%d", i)}
		ops[i] = store.Insert(keys[i], kilobyte(), map[string]string{"model": "m"})
	}
	if err := s.Apply(b.Context(), ops); err != nil {
		b.Fatal(err)
	}
	docs, err := s.GetAll(b.Context(), keys)
	if err != nil {
		b.Fatal(err)
	}
	return s, docs
}

// kilobyte returns a document of 1 kB.
func kilobyte() []byte { return append(bytes.Repeat([]byte("x"), 1022), `""`...) }

// BenchmarkApply measures durable replacements of documents of 1 kB, by one
// writer and by many at once; "applies/s" is the figure to look at.
func BenchmarkApply(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, docs := benchStore(b)
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for w := range writers {
				wg.Go(func() {
					data := kilobyte()
					for i := w; left.Add(-1) >= 0; i += writers {
						doc := &docs[i%(documents/writers*writers)]
						err := s.Apply(b.Context(), []store.Op{store.Replace(doc.Key, doc.Rev, data, map[string]string{"model": "m"})})
						if err != nil {
							b.Error(err)
							return
						}
						fresh, err := s.Get(b.Context(), doc.Key)
						if err != nil {
							b.Error(err)
							return
						}
						doc.Rev = fresh.Rev
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "applies/s")
		})
	}
}

// BenchmarkGet measures reads by id, by as many readers as there are processors.
func BenchmarkGet(b *testing.B) {
	s, docs := benchStore(b)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Get(b.Context(), docs[i*7919%documents].Key); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
}

// BenchmarkGetWhileWriting measures the same beside 16 writers.
func BenchmarkGetWhileWriting(b *testing.B) {
	s, docs := benchStore(b)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var applied atomic.Int64
	for w := range 16 {
		wg.Go(func() {
			key := store.Key{Collection: "machines", ID: fmt.Sprintf("other:%d", w)}
			for ctx.Err() == nil {
				op := store.Insert(key, kilobyte(), nil)
				if doc, err := s.Get(ctx, key); err == nil {
					op = store.Replace(key, doc.Rev, kilobyte(), nil)
				}
				if err := s.Apply(ctx, []store.Op{op}); err == nil {
					applied.Add(1)
				}
			}
		})
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Get(b.Context(), docs[i*7919%documents].Key); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
	b.ReportMetric(float64(applied.Load())/b.Elapsed().Seconds(), "applies/s")
}

// BenchmarkGetAll measures bulk reads of 1,000 documents.
func BenchmarkGetAll(b *testing.B) {
	s, docs := benchStore(b)
	keys := make([]store.Key, 1000)
	for i := range keys {
		keys[i] = docs[i*7].Key
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.GetAll(b.Context(), keys); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList measures a page of 1,000 documents by index.
func BenchmarkList(b *testing.B) {
	s, _ := benchStore(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.List(b.Context(), store.Query{Collection: "machines", Index: "model", Value: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFeed measures the way of one change from Apply to a waiting feed.
func BenchmarkFeed(b *testing.B) {
	s, docs := benchStore(b)
	feed, err := s.Changes(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer feed.Close()
	rev := docs[0].Rev
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Apply(b.Context(), []store.Op{store.Replace(docs[0].Key, rev, kilobyte(), nil)}); err != nil {
			b.Fatal(err)
		}
		changes, err := feed.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		rev = changes[len(changes)-1].Rev
	}
}

// BenchmarkOpen measures opening a store of 10,000 documents, which checks every
// page, and closing it.
func BenchmarkOpen(b *testing.B) {
	c := sqlite.Config{Dir: b.TempDir(), Collections: collections}
	s, _ := benchStoreIn(b, c.Dir)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(c.Dir, "slipway.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		s, err := sqlite.Open(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
