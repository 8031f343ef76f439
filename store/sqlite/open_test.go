package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

var collections = []store.Collection{{Name: "machines", Indexes: []string{"model"}}}

// machine names a document.
func machine(n int) store.Key {
	return store.Key{Collection: "machines", ID: fmt.Sprintf("m:%d", n)}
}

// open opens a store that is closed when the test ends.
func open(t *testing.T, c sqlite.Config) *sqlite.Store {
	t.Helper()
	if c.Collections == nil {
		c.Collections = collections
	}
	s, err := sqlite.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// filled makes a store with documents, closes it and returns the file's name.
func filled(t *testing.T, dir string) string {
	t.Helper()
	s := open(t, sqlite.Config{Dir: dir})
	for n := range 200 {
		if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(n), bytes.Repeat([]byte("x"), 1000), nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "slipway.db-wal")); !os.IsNotExist(err) {
		t.Errorf("a closed store has left its log: %v", err)
	}
	return filepath.Join(dir, "slipway.db")
}

// patch changes bytes of a file in place.
func patch(t *testing.T, path string, offset int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, offset); err != nil {
		t.Fatal(err)
	}
}

// otherProgram makes an SQLite file that is not a store.
func otherProgram(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE accounts (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		kind error
		text string // part of the message
	}{
		{"text file", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "slipway.db"), strings.Repeat("notes on ships\n", 50))
		}, sqlite.ErrForeign, "not a Slipway store: it is not an SQLite file"},
		{"empty file", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "slipway.db"), "")
		}, sqlite.ErrForeign, "move it away"},
		{"another program's file", func(t *testing.T, dir string) {
			otherProgram(t, filepath.Join(dir, "slipway.db"))
		}, sqlite.ErrForeign, "SQLite file of another program"},
		{"newer format", func(t *testing.T, dir string) {
			patch(t, filled(t, dir), 60, []byte{0, 0, 0, 9})
		}, sqlite.ErrNewer, "has format 9, written by a newer version of Slipway, and this version reads up to 1"},
		{"page overwritten", func(t *testing.T, dir string) {
			patch(t, filled(t, dir), 4096*20, bytes.Repeat([]byte{0xa5}, 4096))
		}, sqlite.ErrDamaged, "restore it from a backup"},
		{"every page but the header's overwritten", func(t *testing.T, dir string) {
			path := filled(t, dir)
			patch(t, path, 100, bytes.Repeat([]byte{0x5a}, int(size(t, path)-100)))
		}, sqlite.ErrDamaged, "slipway.db is damaged"},
		{"cut short", func(t *testing.T, dir string) {
			path := filled(t, dir)
			if err := os.Truncate(path, size(t, path)/2); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrDamaged, "restore it from a backup"},
		{"a table missing", func(t *testing.T, dir string) {
			path := filled(t, dir)
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("DROP TABLE meta"); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrDamaged, "no such table"},
		{"file gone, log left", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "slipway.db-wal"), "log")
		}, sqlite.ErrDamaged, "slipway.db is missing, but its log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			before := content(t, dir)
			_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: collections})
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %v, want one line with %q, of kind %v", err, c.text, c.kind)
			}
			if after := content(t, dir); after != before {
				t.Errorf("a refused Open changed the file")
			}
		})
	}
}

func TestOpenNamesTheOwner(t *testing.T) {
	dir := t.TempDir()
	first := open(t, sqlite.Config{Dir: dir})
	before := content(t, dir)
	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: collections})
	want := fmt.Sprintf("cannot open store in %s: in use by process %d; stop it first, or choose another data directory", dir, os.Getpid())
	if !errors.Is(err, sqlite.ErrInUse) || err.Error() != want {
		t.Errorf("Open of an open store = %v, want %q", err, want)
	}
	if content(t, dir) != before {
		t.Error("a refused Open changed the file")
	}
	if err := first.Apply(t.Context(), []store.Op{store.Insert(machine(1), nil, nil)}); err != nil {
		t.Errorf("the owner was disturbed: Apply = %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Dir: dir})
}

func TestOpenRefusesBadConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for _, c := range []struct {
		name   string
		config sqlite.Config
		valid  bool
	}{
		{"no directory", sqlite.Config{}, false},
		{"negative history", sqlite.Config{Dir: t.TempDir(), History: -1}, false},
		{"collection twice", sqlite.Config{Dir: t.TempDir(), Collections: append(collections, collections...)}, false},
		{"a file for a directory", sqlite.Config{Dir: file}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), c.config)
			if err == nil {
				s.Close()
			}
			if err == nil || errors.Is(err, errors.NotValid) == c.valid {
				t.Errorf("Open = %v, want an error, not valid: %v", err, !c.valid)
			}
		})
	}
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20", "data") // names that a URI has to escape
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(1), nil, nil)}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("the data directory has %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v, want 0600", e.Name(), info.Mode().Perm(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v, want 0700", info.Mode().Perm(), err)
	}
}

func TestOpenGoesOnAfterAKillDuringTheFirstOpening(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slipway.db.new"), "half")
	write(t, filepath.Join(dir, "slipway.db.new-journal"), "half")
	write(t, filepath.Join(dir, "slipway.lock"), "4711\n") // not held: its process is gone
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(1), nil, nil)}); err != nil {
		t.Errorf("Apply = %v, want nil", err)
	}
}

// TestOpenSurvivesALostTail cuts the log of a store at many places, as a loss of
// power may do to what was not synced, and expects whole batches, the first so
// many, in documents and changes alike.
func TestOpenSurvivesALostTail(t *testing.T) {
	const batches = 30
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	revs := make([]store.Rev, 3)
	for n := range batches {
		ops := make([]store.Op, len(revs))
		for i := range ops {
			if ops[i] = store.Insert(machine(i), fmt.Append(nil, n), nil); n > 0 {
				ops[i] = store.Replace(machine(i), revs[i], fmt.Append(nil, n), nil)
			}
		}
		if err := s.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		for i := range revs {
			revs[i] = store.Rev(n*len(revs) + i + 1)
		}
	}
	db, log := read(t, filepath.Join(dir, "slipway.db")), read(t, filepath.Join(dir, "slipway.db-wal"))
	seen := make(map[string]bool)
	for cut := len(log); cut >= 0; cut -= len(log)/40 + 1 {
		half := t.TempDir()
		write(t, filepath.Join(half, "slipway.db"), db)
		write(t, filepath.Join(half, "slipway.db-wal"), log[:cut])
		seen[wholeBatches(t, half, len(revs))] = true
	}
	if !seen[fmt.Sprint(batches-1)] || len(seen) < 10 {
		t.Errorf("the cuts left the batches %v, want many different ones", seen)
	}
}

// wholeBatches opens a store, checks that all documents have the same content,
// and that their revisions are the newest changes. It returns the content.
func wholeBatches(t *testing.T, dir string, documents int) string {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: collections})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys := make([]store.Key, documents)
	for i := range keys {
		keys[i] = machine(i)
	}
	docs, err := s.GetAll(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if string(d.Data) != string(docs[0].Data) || d.Rev != 0 && d.Rev != docs[0].Rev+store.Rev(i) {
			t.Errorf("half a batch: %v", docs)
		}
	}
	feed, err := s.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	if err := s.Apply(t.Context(), []store.Op{store.Insert(machine(99), nil, nil)}); err != nil {
		t.Fatal(err)
	}
	changes, err := feed.Next(t.Context())
	if err != nil || changes[0].Rev != docs[documents-1].Rev+1 {
		t.Errorf("the next change is %v, %v, want revision %d", changes, err, docs[documents-1].Rev+1)
	}
	return string(docs[0].Data)
}

func TestOpenStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Collections: collections}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want cancelled", err)
	}
	open(t, sqlite.Config{Dir: dir})
}

// write, read and size are for files that have to be there.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	return int64(len(read(t, path)))
}

// content returns the database and its log as they are on disk; a log without
// content counts as none.
func content(t *testing.T, dir string) string {
	t.Helper()
	var out string
	for _, name := range []string{"slipway.db", "slipway.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		out += name + "\n" + string(b)
	}
	return out
}
