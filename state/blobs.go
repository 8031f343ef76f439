package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/store"
)

// MaxBinary is how many bytes an agent binary may have.
const MaxBinary = 256 << 20

// ErrTooBig says that a binary has more than MaxBinary bytes.
const ErrTooBig = errors.ConstError("more bytes than an agent binary may have")

// blobPart is how many bytes of a binary one document holds.
const blobPart = 512 << 10

// uploadLimit is how long an upload may take; the parts of one that has not
// ended by then are removed.
const uploadLimit = time.Hour

// blobDoc is a part of a binary.
type blobDoc struct {
	Data []byte `json:"data"`
}

func blobKey(blob string, part int) store.Key {
	return siteKey(blobsC, fmt.Sprintf("%s:%08d", blob, part))
}

// Upload keeps the bytes that r yields as the agent binary of a version. If want,
// a SHA-256 in lower-case hexadecimal, is not empty, the bytes must have it. The same
// version with the same content is a success; with other content it is an error
// satisfying errors.AlreadyExists. Other errors satisfy ErrTooBig, and errors.NotValid
// for no bytes at all or others than want says.
func (bs *Binaries) Upload(ctx context.Context, v binaries.Version, r io.Reader, want string) (Binary, error) {
	b, err := bs.upload(ctx, v, r, want)
	return b, errors.Annotatef(err, "cannot keep agent binary %s", v)
}

func (bs *Binaries) upload(ctx context.Context, v binaries.Version, r io.Reader, want string) (Binary, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadLimit/2) // well before the cleaner comes
	defer cancel()
	blob := rand.Text()
	note := siteKey(cleanupsC, upload+":"+blob) // so that the cleaner finds the parts if this process ends
	op, err := insertOp(note, cleanupDoc{Asked: bs.c.now()}, nil)
	if err == nil {
		err = bs.c.store.Apply(ctx, []store.Op{op})
	}
	if err != nil {
		return Binary{}, errors.Trace(err)
	}
	b, err := bs.receive(ctx, blob, r)
	b.Version = v
	switch {
	case err != nil:
	case b.Size == 0:
		err = errors.NotValidf("agent binary without bytes")
	case want != "" && want != b.SHA256:
		err = errors.NotValidf("agent binary with SHA-256 %s instead of %s", b.SHA256, want)
	default:
		var kept bool
		if kept, err = bs.add(ctx, b, note); kept {
			return b, nil
		}
	}
	// The caller may have given up, but the parts have to go.
	if gone := bs.c.removeBlob(context.WithoutCancel(ctx), blob, note); gone != nil {
		logger.Warningf("cannot remove what was uploaded for nothing, going on later: %v", gone)
	}
	return b, err
}

// receive writes the parts of a binary.
func (bs *Binaries) receive(ctx context.Context, blob string, r io.Reader) (Binary, error) {
	b := Binary{Blob: blob}
	sum := sha256.New()
	buffer := make([]byte, blobPart)
	for part := 0; ; part++ {
		n, err := io.ReadFull(r, buffer)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return b, errors.Trace(err)
		}
		if n == 0 {
			b.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return b, nil
		}
		if b.Size += int64(n); b.Size > MaxBinary {
			return b, errors.Annotatef(ErrTooBig, "%d or more bytes, at most %d allowed", b.Size, MaxBinary)
		}
		sum.Write(buffer[:n])
		op, err := insertOp(blobKey(blob, part), blobDoc{buffer[:n]}, nil)
		if err == nil {
			err = bs.c.store.Apply(ctx, []store.Op{op})
		}
		if err != nil {
			return b, errors.Trace(err)
		}
	}
}

// removeBlob removes the parts of a binary, and the note about its upload.
func (c *Controller) removeBlob(ctx context.Context, blob string, note store.Key) error {
	for part := 0; ; part++ {
		docs, err := c.store.GetAll(ctx, []store.Key{blobKey(blob, part)})
		if err != nil {
			return errors.Trace(err)
		}
		if docs[0].Rev == 0 {
			break
		}
		if err := c.store.Apply(ctx, []store.Op{store.Remove(docs[0].Key, docs[0].Rev)}); err != nil && !errors.Is(err, store.ErrConflict) {
			return errors.Trace(err)
		}
	}
	return c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := c.store.GetAll(ctx, []store.Key{note})
		if err != nil || docs[0].Rev == 0 {
			return nil, err
		}
		return []store.Op{store.Remove(note, docs[0].Rev)}, nil
	})
}

// unfinished removes the parts of an upload that has not ended in time.
func (cs *Cleanups) unfinished(ctx context.Context, job cleanup, blob string, now time.Time) (again time.Time, err error) {
	if limit := job.asked.Add(uploadLimit); now.Before(limit) {
		return limit, nil
	}
	return time.Time{}, cs.c.removeBlob(ctx, blob, job.Key)
}

// Get returns what is known of a version's binary, or an error satisfying
// errors.NotFound.
func (bs *Binaries) Get(ctx context.Context, v binaries.Version) (Binary, error) {
	d, err := bs.c.store.Get(ctx, siteKey(binariesC, v.String()))
	if errors.Is(err, errors.NotFound) {
		return Binary{}, errors.NotFoundf("agent binary %s", v)
	}
	if err != nil {
		return Binary{}, errors.Annotatef(err, "cannot get agent binary %s", v)
	}
	b, err := decode[Binary](d)
	if err != nil {
		return Binary{}, errors.Trace(err)
	}
	return *b, nil
}

// WriteTo writes the bytes of a binary to w. If they are not those that were
// uploaded, the last part is not written, and the error satisfies errors.NotValid.
func (bs *Binaries) WriteTo(ctx context.Context, b Binary, w io.Writer) error {
	sum := sha256.New()
	left := b.Size
	for part := 0; left > 0; part++ {
		d, err := bs.c.store.Get(ctx, blobKey(b.Blob, part))
		if err != nil {
			return errors.Annotatef(err, "cannot read agent binary %s", b.Version)
		}
		p, err := decode[blobDoc](d)
		if err != nil {
			return errors.Trace(err)
		}
		sum.Write(p.Data)
		left -= int64(len(p.Data))
		if left < 0 || left == 0 && hex.EncodeToString(sum.Sum(nil)) != b.SHA256 {
			return errors.NotValidf("content of agent binary %s", b.Version)
		}
		if _, err := io.Copy(w, bytes.NewReader(p.Data)); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// Reader returns the bytes of a binary, of which parts can be read. Other than with
// WriteTo nothing is verified: whoever has all the parts compares the sum. It is for one
// goroutine, and keeps one part in memory.
func (bs *Binaries) Reader(ctx context.Context, b Binary) io.ReadSeeker {
	return io.NewSectionReader(&blobReader{ctx: ctx, bs: bs, b: b, part: -1}, 0, b.Size)
}

// blobReader reads a binary at any place.
type blobReader struct {
	ctx  context.Context // of whoever reads
	bs   *Binaries
	b    Binary
	part int // that data is of
	data []byte
}

// ReadAt implements io.ReaderAt.
func (r *blobReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= r.b.Size {
			return n, io.EOF
		}
		if part := int(at / blobPart); part != r.part {
			d, err := r.bs.c.store.Get(r.ctx, blobKey(r.b.Blob, part))
			if err != nil {
				return n, errors.Annotatef(err, "cannot read agent binary %s", r.b.Version)
			}
			doc, err := decode[blobDoc](d)
			if err != nil {
				return n, errors.Trace(err)
			}
			r.part, r.data = part, doc.Data
		}
		begin := at % blobPart
		if begin >= int64(len(r.data)) {
			return n, errors.NotValidf("content of agent binary %s", r.b.Version)
		}
		n += copy(p[n:], r.data[begin:])
	}
	return n, nil
}
