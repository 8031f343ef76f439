package storecrash

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

const (
	writers   = 8 // goroutines that write at once
	states    = 3 // documents that each batch of a writer replaces
	logLength = 5 // documents that a writer inserted and has not removed yet
)

// collections are those of the store that is crashed.
var collections = []store.Collection{{Name: "docs", Indexes: []string{"writer"}}}

// stateKey and logKey name a writer's documents.
func stateKey(writer, i int) store.Key {
	return store.Key{Collection: "docs", ID: fmt.Sprintf("state-%d-%d", writer, i)}
}

func logKey(writer, n int) store.Key {
	return store.Key{Collection: "docs", ID: fmt.Sprintf("log-%d-%08d", writer, n)}
}

// Open opens the store as both the writers and the checks do.
func Open(ctx context.Context, dir string) (*sqlite.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Dir: dir, Collections: collections})
}

// Write applies batches until it is killed or out fails. It writes a line
// "try WRITER N" to out before each batch, and "ack WRITER N" after it; every
// line is one call of Write.
func Write(ctx context.Context, dir string, out io.Writer) error {
	s, err := Open(ctx, dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.Close()
	failures := make(chan error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { failures <- writeMany(ctx, s, w, out) })
	}
	wg.Wait()
	return <-failures
}

// writeMany is one of the writers.
func writeMany(ctx context.Context, s store.Store, writer int, out io.Writer) error {
	for {
		ops, n, err := next(ctx, s, writer)
		if err != nil {
			return errors.Trace(err)
		}
		if _, err := fmt.Fprintf(out, "try %d %d\n", writer, n); err != nil {
			return errors.Trace(err)
		}
		if err := s.Apply(ctx, ops); err != nil {
			return errors.Trace(err)
		}
		if _, err := fmt.Fprintf(out, "ack %d %d\n", writer, n); err != nil {
			return errors.Trace(err)
		}
	}
}

// next builds the writer's next batch on what it finds in the store: the state
// documents all become n, log document n is new, and the oldest one goes.
func next(ctx context.Context, s store.Store, writer int) ([]store.Op, int, error) {
	keys := make([]store.Key, states)
	for i := range keys {
		keys[i] = stateKey(writer, i)
	}
	docs, err := s.GetAll(ctx, keys)
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	n := 1
	if docs[0].Rev != 0 {
		last, err := strconv.Atoi(string(docs[0].Data))
		if err != nil {
			return nil, 0, errors.Annotate(err, "cannot read state")
		}
		n = last + 1
	}
	var ops []store.Op
	index := map[string]string{"writer": strconv.Itoa(writer)}
	for i, doc := range docs {
		op := store.Insert(keys[i], fmt.Append(nil, n), index)
		if doc.Rev != 0 {
			op = store.Replace(keys[i], doc.Rev, fmt.Append(nil, n), index)
		}
		ops = append(ops, op)
	}
	ops = append(ops, store.Insert(logKey(writer, n), fmt.Append(nil, n), nil))
	if n > logLength {
		old, err := s.Get(ctx, logKey(writer, n-logLength))
		if err != nil {
			return nil, 0, errors.Trace(err)
		}
		ops = append(ops, store.Remove(old.Key, old.Rev))
	}
	return ops, n, nil
}
