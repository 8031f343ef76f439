package storecrash

import (
	"bytes"
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// fileLimit is the size that files may reach while the disk passes for full.
const fileLimit = 3 << 20

// WriteUntilFull writes until the system refuses to let a file grow, as it does
// on a full disk, makes room, and goes on with the same open store. It returns an
// error if a batch is lost, half applied, or refused while there is room. It
// limits the whole process, which should have nothing else to do.
func WriteUntilFull(ctx context.Context, dir string) error {
	s, err := Open(ctx, dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.Close()
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails instead
	var room syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		return errors.Annotate(err, "cannot get the size limit")
	}
	full := room
	full.Cur = fileLimit
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return errors.Annotate(err, "cannot set the size limit")
	}
	stored := 0
	for err = nil; err == nil && stored < 10_000; stored++ {
		err = s.Apply(ctx, pair(stored))
	}
	if err == nil {
		return errors.Errorf("nothing was refused with files of at most %d bytes", fileLimit)
	}
	stored--
	if err := checkPairs(ctx, s, stored); err != nil {
		return errors.Annotate(err, "while the disk is full")
	}
	if err := s.Apply(ctx, pair(stored)); err == nil {
		return errors.Errorf("batch %d was refused and then accepted without room", stored)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		return errors.Annotate(err, "cannot lift the size limit")
	}
	for end := stored + 100; stored < end; stored++ {
		if err := s.Apply(ctx, pair(stored)); err != nil {
			return errors.Annotatef(err, "batch %d, with room again", stored)
		}
	}
	if err := s.Close(); err != nil {
		return errors.Trace(err)
	}
	if s, err = Open(ctx, dir); err != nil {
		return errors.Trace(err)
	}
	defer s.Close()
	return errors.Annotate(checkPairs(ctx, s, stored), "opened again")
}

// pair returns the batch that inserts the pair of documents number n.
func pair(n int) []store.Op {
	data := bytes.Repeat([]byte("x"), 4000)
	return []store.Op{
		store.Insert(store.Key{Collection: "docs", ID: fmt.Sprintf("pair-%06d-a", n)}, data, nil),
		store.Insert(store.Key{Collection: "docs", ID: fmt.Sprintf("pair-%06d-b", n)}, data, nil),
	}
}

// checkPairs checks that the store has exactly the first so many pairs.
func checkPairs(ctx context.Context, s store.Store, pairs int) error {
	page, err := s.List(ctx, store.Query{Collection: "docs", Prefix: "pair-", Limit: 2*pairs + 2})
	if err != nil {
		return errors.Trace(err)
	}
	if len(page.Docs) != 2*pairs {
		return errors.Errorf("%d documents, want %d", len(page.Docs), 2*pairs)
	}
	for i, doc := range page.Docs {
		if want := pair(i / 2)[i%2].Key; doc.Key != want {
			return errors.Errorf("document %d is %s, want %s", i, doc.ID, want.ID)
		}
	}
	return nil
}
