package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	stderrors "errors"
	"io"
	"os"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Edit returns the content that a document is to have in a copy of a store.
type Edit func(key store.Key, data []byte) ([]byte, error)

// editPage is how many documents are held in memory while a copy is edited.
const editPage = 500

// Snapshot copies the store in a data directory, as it is at one moment, to a
// new file with mode 0600. Another process may have the store open and write to
// it meanwhile: the copy is one read transaction, which waits for no writer and
// holds none up. Nothing of what edit replaces is left in the copy; a nil edit
// replaces nothing. It returns an error satisfying errors.NotFound if there is
// no store.
func Snapshot(ctx context.Context, dir, out string, edit Edit) error {
	return errors.Annotatef(snapshot(ctx, Config{Dir: dir}.file(), out, edit), "cannot copy store in %s", dir)
}

func snapshot(ctx context.Context, from, out string, edit Edit) error {
	found, err := exists(from)
	if err == nil && !found {
		err = errors.NotFoundf("store")
	}
	if err != nil {
		return errors.Trace(err)
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite takes an empty file
	if err != nil {
		return errors.Trace(err)
	}
	if err := f.Close(); err != nil {
		return errors.Trace(err)
	}
	if err := execOnce(ctx, dsn(from, "ro"), "VACUUM INTO ?", out); err != nil {
		return errors.Trace(explain(err))
	}
	if edit == nil {
		return nil
	}
	return errors.Trace(explain(editAll(ctx, out, edit)))
}

// execOnce runs one statement on a connection of its own.
func execOnce(ctx context.Context, dsn, query string, args ...any) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return errors.Trace(err)
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, query, args...)
	return errors.Trace(stderrors.Join(err, db.Close()))
}

// editAll has edit replace documents of a copy that nobody else knows yet.
func editAll(ctx context.Context, path string, edit Edit) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "rw", "journal_mode(MEMORY)"))
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { err = errors.Trace(stderrors.Join(err, db.Close())) }()
	db.SetMaxOpenConns(1)
	for after := int64(0); ; {
		page, last, err := readPage(ctx, db, after)
		if err != nil {
			return errors.Trace(err)
		}
		if len(page) == 0 {
			break
		}
		if err := editDocs(ctx, db, page, edit); err != nil {
			return errors.Trace(err)
		}
		after = last
	}
	// Old content is in pages that are free now.
	_, err = db.ExecContext(ctx, "VACUUM")
	return errors.Trace(err)
}

// numbered is a document with its number in the file.
type numbered struct {
	num int64
	store.Doc
}

// readPage reads the documents after a number, and returns the last one's.
func readPage(ctx context.Context, db *sql.DB, after int64) (page []numbered, last int64, err error) {
	rows, err := db.QueryContext(ctx, `SELECT docs.num, collections.name, docs.id, docs.data FROM docs
		JOIN collections ON collections.num = docs.collection
		WHERE docs.num > ? ORDER BY docs.num LIMIT ?`, after, editPage)
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	defer rows.Close()
	for rows.Next() {
		var d numbered
		if err := rows.Scan(&d.num, &d.Collection, &d.ID, &d.Data); err != nil {
			return nil, 0, errors.Trace(err)
		}
		page, last = append(page, d), d.num
	}
	return page, last, errors.Trace(rows.Err())
}

// editDocs replaces the documents that edit changes.
func editDocs(ctx context.Context, db *sql.DB, page []numbered, edit Edit) error {
	for _, d := range page {
		data, err := edit(d.Key, d.Data)
		if err != nil {
			return errors.Trace(err)
		}
		if string(data) == string(d.Data) {
			continue
		}
		if _, err := db.ExecContext(ctx, "UPDATE docs SET data = ? WHERE num = ?", data, d.num); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// Install makes a data directory's store of a copy that Snapshot made. The
// store gets an identity of its own, so that no position in the history of the
// one that was copied is taken for one in its. It returns an error satisfying
// errors.AlreadyExists if there is a store, and the errors of Open for a copy
// that Open would refuse.
func Install(ctx context.Context, dir, from string) error {
	return errors.Annotatef(install(ctx, Config{Dir: dir}, from), "cannot restore store in %s", dir)
}

func install(ctx context.Context, c Config, from string) error {
	if err := makeDir(c.Dir); err != nil {
		return errors.Trace(err)
	}
	lock, err := lock(c.lockFile())
	if err != nil {
		return errors.Trace(err)
	}
	defer unlock(lock)
	if found, err := exists(c.file()); err != nil || found {
		return errors.Trace(stderrors.Join(err, errors.AlreadyExistsf("store")))
	}
	fresh := c.file() + ".new"
	if err := copyFile(from, fresh); err != nil {
		return errors.Trace(err)
	}
	found, err := exists(fresh)
	if err == nil && !found {
		err = errors.NotFoundf("copy")
	}
	if err == nil {
		_, err = inspect(ctx, fresh)
	}
	if err == nil {
		var id [16]byte
		rand.Read(id[:]) // never fails, see crypto/rand
		err = execOnce(ctx, dsn(fresh, "rw", "synchronous(FULL)"), "UPDATE meta SET value = ? WHERE key = 'store'", hex.EncodeToString(id[:]))
	}
	if err == nil {
		err = os.Rename(fresh, c.file())
	}
	if err != nil {
		return errors.Trace(stderrors.Join(err, os.Remove(fresh)))
	}
	return errors.Trace(syncDir(c.Dir))
}

// copyFile copies a file, replacing what another attempt has left.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return errors.Trace(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { err = errors.Trace(stderrors.Join(err, out.Close())) }()
	if _, err := io.Copy(out, in); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(out.Sync())
}
