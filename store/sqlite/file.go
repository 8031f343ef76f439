package sqlite

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	stderrors "errors"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/juju/errors"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// The file says in its header what it is: see "The Database Header" in SQLite's
// description of its file format for the magic and the offsets.
const (
	magic             = "SQLite format 3\x00"
	headerBytes       = 100
	userVersionOffset = 60
	applicationOffset = 68

	applicationID = 0x536c7077 // "Slpw"
	format        = 1          // of the tables; a higher one was written by a newer version
)

// checkedBytes is the size up to which every page is checked when a store is
// opened; BenchmarkOpen shows the speed, some 900 MB a second of a cached file. Of a larger
// file only the pages that opening needs are read.
const checkedBytes = 256 << 20

// tables makes a new store.
const tables = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE collections (num INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE docs (
	num INTEGER PRIMARY KEY, collection INTEGER NOT NULL, id TEXT NOT NULL,
	rev INTEGER NOT NULL, indexed TEXT NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX docs_id ON docs (collection, id);
CREATE TABLE entries (
	collection INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
	id TEXT NOT NULL, doc INTEGER NOT NULL,
	PRIMARY KEY (collection, name, value, id)) WITHOUT ROWID;
CREATE TABLE changes (
	pos INTEGER PRIMARY KEY, collection INTEGER NOT NULL, id TEXT NOT NULL,
	rev INTEGER NOT NULL, removed INTEGER NOT NULL);
`

// dsn names a database file for the driver, with pragmas like "name(value)" that
// each connection sets.
func dsn(path, mode string, pragmas ...string) string {
	query := url.Values{"mode": {mode}, "_pragma": append([]string{"busy_timeout(10000)"}, pragmas...)}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// exists reports whether there is a store at path, by its header alone. It
// returns an error if there is something else.
func exists(path string) (bool, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		if _, err := os.Stat(path + "-wal"); err == nil {
			return false, errors.WithType(errors.Errorf(
				"%s is missing, but its log %s-wal is there; bring the file back, or move the log away", path, path), ErrDamaged)
		}
		return false, nil
	}
	if err != nil {
		return false, errors.Trace(err)
	}
	defer f.Close()
	header := make([]byte, headerBytes)
	n, err := io.ReadFull(f, header)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return false, errors.Trace(err)
	}
	return true, checkHeader(path, header[:n])
}

// checkHeader refuses a file that is not a store of a format known here.
func checkHeader(path string, header []byte) error {
	if len(header) < headerBytes || !bytes.HasPrefix(header, []byte(magic)) {
		return foreign(path, "it is not an SQLite file")
	}
	if binary.BigEndian.Uint32(header[applicationOffset:]) != applicationID {
		return foreign(path, "it is the SQLite file of another program")
	}
	return checkFormat(path, int(binary.BigEndian.Uint32(header[userVersionOffset:])))
}

// foreign returns the error for a file that is not ours.
func foreign(path, reason string) error {
	return errors.WithType(errors.Errorf(
		"%s is not a Slipway store: %s; move it away, or choose another data directory", path, reason), ErrForeign)
}

// checkFormat refuses the tables of a newer version.
func checkFormat(path string, got int) error {
	if got <= format {
		return nil
	}
	return errors.WithType(errors.Errorf(
		"%s has format %d, written by a newer version of Slipway, and this version reads up to %d; run the newer version", path, got, format), ErrNewer)
}

// create makes a new store under another name and renames it, so that a store
// with its proper name is always whole.
func create(ctx context.Context, path string) (err error) {
	fresh := path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} { // left by a process that was killed
		if err := os.Remove(fresh + suffix); err != nil && !os.IsNotExist(err) {
			return errors.Trace(err)
		}
	}
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // the log takes over the mode
	if err != nil {
		return errors.Trace(err)
	}
	if err := f.Close(); err != nil {
		return errors.Trace(err)
	}
	if err := fill(ctx, fresh); err != nil {
		return errors.Trace(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(syncDir(filepath.Dir(path)))
}

// fill makes the tables in an empty file.
func fill(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "rw", "synchronous(FULL)"))
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { err = errors.Trace(stderrors.Join(err, db.Close())) }()
	db.SetMaxOpenConns(1)
	var id [16]byte
	rand.Read(id[:]) // never fails, see crypto/rand
	for _, step := range []struct {
		query string
		args  []any
	}{
		{query: "PRAGMA application_id = 1399615607"}, // applicationID
		{query: "PRAGMA user_version = 1"},            // format
		{query: tables},
		{"INSERT INTO meta (key, value) VALUES ('store', ?)", []any{hex.EncodeToString(id[:])}},
		{query: "PRAGMA journal_mode = WAL"},
	} {
		if _, err := db.ExecContext(ctx, step.query, step.args...); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// makeDir makes a directory and those above it, so that they are there after a
// loss of power too.
func makeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil // anything but a directory is refused by what follows
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDir(parent); err != nil {
			return errors.Trace(err)
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return errors.Trace(err)
	}
	return errors.Trace(syncDir(parent))
}

// syncDir makes new names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(stderrors.Join(dir.Sync(), dir.Close()))
}

// inspect reads a store without changing it, and returns its identity. It
// returns an error satisfying errors.Is(err, ErrDamaged) if SQLite finds
// something wrong with it.
func inspect(ctx context.Context, path string) (identity string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", errors.Trace(err)
	}
	db, err := sql.Open("sqlite", dsn(path, "ro"))
	if err != nil {
		return "", errors.Trace(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var version, tables int
	verdict := "ok"
	if info.Size() <= checkedBytes {
		err = db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	}
	if err == nil && verdict == "ok" {
		err = db.QueryRowContext(ctx, `SELECT (SELECT value FROM meta WHERE key = 'store'),
			(SELECT user_version FROM pragma_user_version),
			(SELECT count(*) FROM sqlite_master WHERE type = 'table')`).Scan(&identity, &version, &tables)
	}
	if err != nil && !isDamage(err) {
		return "", errors.Trace(err)
	}
	if err != nil {
		verdict = err.Error()
	}
	if verdict != "ok" {
		return "", errors.WithType(errors.Errorf("%s is damaged (%s); restore it from a backup", path, oneLine(verdict)), ErrDamaged)
	}
	return identity, checkFormat(path, version)
}

// isDamage reports whether SQLite's error says that the file's content is wrong,
// rather than that it could not be read.
func isDamage(err error) bool {
	switch code(err) {
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB, codes.SQLITE_ERROR: // the last: a table is missing
		return true
	}
	return false
}

// code returns SQLite's primary result code of an error, 0 if it has none.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	return string(bytes.Join(bytes.Fields([]byte(text)), []byte(" ")))
}
