package sqlite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

// pairs writes two documents in one batch again and again, both with the same
// number, until ctx ends. It calls wrote after each.
func pairs(ctx context.Context, s *sqlite.Store, a, b int, wrote func()) error {
	for n := 0; ; n++ {
		err := store.Run(ctx, s, func(int) ([]store.Op, error) {
			docs, err := s.GetAll(ctx, []store.Key{machine(a), machine(b)})
			if err != nil {
				return nil, err
			}
			var ops []store.Op
			for _, d := range docs {
				op := store.Insert(d.Key, []byte(strconv.Itoa(n)), map[string]string{"model": "m"})
				if d.Rev != 0 {
					op.Kind, op.Rev = store.OpReplace, d.Rev
				}
				ops = append(ops, op)
			}
			return ops, nil
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		wrote()
	}
}

func TestSnapshotUnderLoadIsOneMoment(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	written := make(chan struct{}, 1)
	for w := range 8 {
		wg.Go(func() {
			err := pairs(ctx, s, 2*w, 2*w+1, func() {
				select {
				case written <- struct{}{}:
				default:
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for round := range 10 {
		<-written
		<-written // one is from after the round before
		out := filepath.Join(t.TempDir(), "copy")
		if err := sqlite.Snapshot(t.Context(), dir, out, nil); err != nil {
			t.Fatal(err)
		}
		restored := t.TempDir()
		if err := sqlite.Install(t.Context(), restored, out); err != nil {
			t.Fatal(err)
		}
		r := open(t, sqlite.Config{Dir: restored})
		page, err := r.List(t.Context(), store.Query{Collection: "machines", Index: "model", Value: "m"})
		if err != nil || len(page.Docs) == 0 {
			t.Fatalf("round %d: copy lists %d documents, %v", round, len(page.Docs), err)
		}
		at := make(map[string]string)
		for _, d := range page.Docs {
			at[d.ID] = string(d.Data)
		}
		for w := range 8 {
			if a, b := at[machine(2*w).ID], at[machine(2*w+1).ID]; a != b {
				t.Errorf("round %d: a batch was copied in part: %q and %q", round, a, b)
			}
		}
	}
	stop()
	wg.Wait()
}

func TestSnapshotLeavesNothingOfWhatIsEdited(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	for n := range 1200 {
		text := fmt.Appendf(nil, "public %d SECRET-%d %s", n, n, strings.Repeat("x", n%300))
		if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(n), text, nil)}); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "copy")
	err := sqlite.Snapshot(t.Context(), dir, out, func(key store.Key, data []byte) ([]byte, error) {
		before, _, _ := bytes.Cut(data, []byte("SECRET"))
		return before, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil || bytes.Contains(text, []byte("SECRET")) || !bytes.Contains(text, []byte("public 1199")) {
		t.Errorf("the copy holds what was edited away, or not what was kept (%v)", err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 {
		t.Errorf("the copy has mode %v (%v), want 0600", info.Mode(), err)
	}
	if err := sqlite.Snapshot(t.Context(), dir, out+"2", func(store.Key, []byte) ([]byte, error) { return nil, errors.New("no") }); err == nil {
		t.Error("an edit's error was lost")
	}
}

func TestARestoredStoreIsAnotherStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	feed, err := s.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(1), []byte("1"), nil)}); err != nil {
		t.Fatal(err)
	}
	changes, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "copy")
	if err := sqlite.Snapshot(t.Context(), dir, out, nil); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if err := sqlite.Install(t.Context(), restored, out); err != nil {
		t.Fatal(err)
	}
	r := open(t, sqlite.Config{Dir: restored})
	if _, err := r.Changes(t.Context(), changes[0].Position); !errors.Is(err, errors.NotValid) {
		t.Errorf("Changes after the original's position = %v, want not valid", err)
	}
	old, err := r.Get(t.Context(), machine(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(t.Context(), []store.Op{store.Replace(machine(1), old.Rev, []byte("2"), nil)}); err != nil {
		t.Fatal(err)
	}
	if d, err := r.Get(t.Context(), machine(1)); err != nil || d.Rev <= old.Rev {
		t.Errorf("revision after a restore is %d (%v), want above %d", d.Rev, err, old.Rev)
	}
}

func TestSnapshotAndInstallRefuse(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, dir)
	copyOf := func(change func(path string)) string {
		out := filepath.Join(t.TempDir(), "copy")
		if err := sqlite.Snapshot(t.Context(), dir, out, nil); err != nil {
			t.Fatal(err)
		}
		change(out)
		return out
	}
	if err := sqlite.Snapshot(t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "copy"), nil); !errors.Is(err, errors.NotFound) {
		t.Errorf("Snapshot of nothing = %v, want not found", err)
	}
	if err := sqlite.Snapshot(t.Context(), dir, path, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("Snapshot over a file = %v, want that it exists", err)
	}
	newer := binary.BigEndian.AppendUint32(nil, 99)
	for name, c := range map[string]struct {
		dir, from string
		kind      error
	}{
		"over a store": {dir, copyOf(func(string) {}), errors.AlreadyExists},
		"newer":        {t.TempDir(), copyOf(func(p string) { patch(t, p, 60, newer) }), sqlite.ErrNewer},
		"damaged":      {t.TempDir(), copyOf(func(p string) { patch(t, p, 4096, bytes.Repeat([]byte{0xff}, 8192)) }), sqlite.ErrDamaged},
		"no store":     {t.TempDir(), copyOf(func(p string) { patch(t, p, 0, []byte("not a database")) }), sqlite.ErrForeign},
		"missing":      {t.TempDir(), filepath.Join(dir, "none"), os.ErrNotExist},
	} {
		if err := sqlite.Install(t.Context(), c.dir, c.from); !errors.Is(err, c.kind) {
			t.Errorf("%s: Install = %v, want %v", name, err, c.kind)
		}
		if left, _ := filepath.Glob(filepath.Join(c.dir, "*.new*")); len(left) > 0 {
			t.Errorf("%s: Install left %v", name, left)
		}
	}
}

// BenchmarkSnapshot copies 10,000 documents of 2 kB while a writer replaces one
// of them again and again. "writes/op" is how many it made during a copy.
func BenchmarkSnapshot(b *testing.B) {
	dir := b.TempDir()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: dir, Collections: collections})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var ops []store.Op
	for n := range 10_000 {
		ops = append(ops, store.Insert(machine(n), bytes.Repeat([]byte{byte(n)}, 2000), nil))
	}
	if err := s.Apply(b.Context(), ops); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	writes := 0
	wg.Go(func() {
		if err := pairs(ctx, s, 1, 2, func() { writes++ }); err != nil {
			b.Error(err)
		}
	})
	for b.Loop() {
		out := filepath.Join(b.TempDir(), "copy")
		if err := sqlite.Snapshot(b.Context(), dir, out, nil); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	wg.Wait()
	b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
}
