package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

func view(t *testing.T, dir string) *sqlite.View {
	t.Helper()
	v, err := sqlite.OpenView(t.Context(), sqlite.Config{Dir: dir, Collections: collections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() }) // some tests have closed it
	return v
}

func TestAViewFollowsTheOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(1), []byte("1"), map[string]string{"model": "m"})}); err != nil {
		t.Fatal(err)
	}
	v := view(t, dir)
	feed, err := v.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	docs, err := v.GetAll(t.Context(), []store.Key{machine(1), machine(2)})
	if err != nil || string(docs[0].Data) != "1" || docs[1].Rev != 0 {
		t.Fatalf("GetAll = %v, %v", docs, err)
	}
	if err := s.Apply(t.Context(), []store.Op{store.Replace(machine(1), docs[0].Rev, []byte("2"), nil), store.Insert(machine(2), nil, nil)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes, err := feed.Next(ctx)
	if err != nil || len(changes) != 2 || changes[0].Key != machine(1) {
		t.Fatalf("Next = %v, %v, want two changes", changes, err)
	}
	if docs, err = v.GetAll(ctx, []store.Key{machine(1)}); err != nil || string(docs[0].Data) != "2" {
		t.Errorf("GetAll = %v, %v, want the new content", docs, err)
	}
	if page, err := v.List(ctx, store.Query{Collection: "machines"}); err != nil || len(page.Docs) != 2 {
		t.Errorf("List = %v, %v, want two", page, err)
	}
}

func TestAFenceWaitsForTheOwnerAndKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	v := view(t, dir)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := v.Fence(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Fence beside the owner = %v, want that it waits", err)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- v.Fence(t.Context()) }()
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(1), []byte("last"), nil)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-fenced; err != nil {
		t.Fatal(err)
	}
	if docs, err := v.GetAll(t.Context(), []store.Key{machine(1)}); err != nil || string(docs[0].Data) != "last" {
		t.Errorf("GetAll behind the fence = %v, %v, want what was written last", docs, err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: collections}); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("Open behind the fence = %v, want in use", err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, sqlite.Config{Dir: dir})
	if d, err := again.Get(t.Context(), machine(1)); err != nil || string(d.Data) != "last" {
		t.Errorf("the store after the fence has %v, %v", d, err)
	}
}

func TestOpenViewRefuses(t *testing.T) {
	if _, err := sqlite.OpenView(t.Context(), sqlite.Config{Dir: t.TempDir(), Collections: collections}); !errors.Is(err, errors.NotFound) {
		t.Errorf("OpenView of nothing = %v, want not found", err)
	}
	dir := t.TempDir()
	path := filled(t, dir)
	patch(t, path, 0, []byte("not a database"))
	if _, err := sqlite.OpenView(t.Context(), sqlite.Config{Dir: dir, Collections: collections}); !errors.Is(err, sqlite.ErrForeign) {
		t.Errorf("OpenView of something else = %v, want foreign", err)
	}
}
