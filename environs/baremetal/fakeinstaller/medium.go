package fakeinstaller

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/juju/errors"
)

// pieceSize is how much of a medium is fetched at a time, in bytes. Three pieces have all that
// is wanted of one.
const pieceSize = 64 << 10

// maxPieces is how many pieces of a medium are fetched at most: as many as the largest boot
// file and folder that a medium may have are in. What the URL leads to may claim any length.
const maxPieces = 40

// remote reads a file on a server in pieces, and keeps the last one.
type remote struct {
	ctx    context.Context
	client *http.Client
	url    string // secret: whoever knows it has the medium

	piece   []byte
	at      int64
	fetched int   // pieces
	failed  error // why a piece could not be fetched
}

// ReadAt implements io.ReaderAt, for one goroutine at a time.
func (r *remote) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at < r.at || at >= r.at+int64(len(r.piece)) {
			piece, err := r.fetch(at/pieceSize*pieceSize, pieceSize)
			if err != nil {
				r.failed = err
				return n, err
			}
			r.at, r.piece = at/pieceSize*pieceSize, piece
		}
		if at >= r.at+int64(len(r.piece)) {
			return n, io.EOF
		}
		n += copy(p[n:], r.piece[at-r.at:])
	}
	return n, nil
}

// fetch gets a part of the file, shorter at its end and empty behind it. Errors do not quote
// the URL.
func (r *remote) fetch(at, length int64) ([]byte, error) {
	if r.fetched++; r.fetched > maxPieces {
		return nil, errors.NotValidf("medium whose boot file is not in %d KiB of it", maxPieces*pieceSize>>10)
	}
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, errors.NotValidf("URL of the medium")
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+length-1))
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, errors.Annotate(errors.Unwrap(err), "cannot fetch the medium") // a *url.Error has the URL
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, nil
	case http.StatusOK:
		return nil, errors.NewNotSupported(nil, "the server of the medium gives no parts of it")
	default:
		return nil, errors.Errorf("cannot fetch the medium: the server answered %s", resp.Status)
	}
	piece, err := io.ReadAll(io.LimitReader(resp.Body, length))
	return piece, errors.Annotate(err, "cannot fetch the medium")
}

// nowhere is a disk of so many bytes that keeps nothing.
type nowhere int64

// ReadAt implements io.ReaderAt: it is all zeros.
func (n nowhere) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(n) {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}

// WriteAt implements io.WriterAt.
func (n nowhere) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > int64(n) {
		return 0, errors.NotValidf("write behind the end of the disk")
	}
	return len(p), nil
}

// Close implements io.Closer.
func (nowhere) Close() error { return nil }

// Size returns how large the disk is, in bytes.
func (n nowhere) Size() (int64, error) { return int64(n), nil }

// Sync does nothing.
func (nowhere) Sync() error { return nil }

// Reread does nothing.
func (nowhere) Reread() error { return nil }

// Zero does nothing: it is all zeros.
func (nowhere) Zero(int64, int64) error { return nil }
