package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
	"github.com/slipway-project/slipway/store/storetest"
)

// documents is how many documents of 1 kB the benchmarks work on.
const documents = storetest.BenchDocuments

// benchStore opens a store with the documents, and returns both.
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
	return s, storetest.FillBench(b, s)
}

// emptyStore opens a store without documents.
func emptyStore(b *testing.B) store.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir(), Collections: collections})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func BenchmarkApply(b *testing.B) { storetest.BenchApply(b, emptyStore) }

func BenchmarkGet(b *testing.B) { storetest.BenchGet(b, emptyStore(b)) }

func BenchmarkList(b *testing.B) { storetest.BenchList(b, emptyStore(b)) }

func BenchmarkFeed(b *testing.B) {
	s := emptyStore(b)
	storetest.BenchFeed(b, s, s)
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
				op := store.Insert(key, storetest.Kilobyte(), nil)
				if doc, err := s.Get(ctx, key); err == nil {
					op = store.Replace(key, doc.Rev, storetest.Kilobyte(), nil)
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
	b.ReportMetric(float64(applied.Load())/b.Elapsed().Seconds(), "batches/s")
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
