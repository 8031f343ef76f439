package image

// Fuzzing needs the parsers, which are not exported.

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"testing"

	"github.com/juju/errors"
)

// smallQcow2 is an image of one cluster of 512 bytes with one table of each kind.
func smallQcow2() []byte {
	b := make([]byte, 2048)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 2)
	be.PutUint32(b[20:], 9)
	be.PutUint64(b[24:], 1024)
	be.PutUint32(b[36:], 1)
	be.PutUint64(b[40:], 512)
	be.PutUint64(b[512:], 1024)
	be.PutUint64(b[1024:], 1536)
	return b
}

func FuzzQcow2(f *testing.F) {
	f.Add(smallQcow2())
	v3 := append(smallQcow2(), 1, 2, 3)
	binary.BigEndian.PutUint32(v3[4:], 3)
	binary.BigEndian.PutUint32(v3[100:], 104)
	binary.BigEndian.PutUint64(v3[1032:], 1<<62|1536)
	f.Add(v3)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseQcow2(b, int64(len(b)))
		if err != nil {
			if !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotSupported) {
				t.Errorf("parseQcow2 = %v, of no kind", err)
			}
			return
		}
		if h.size > 1<<20 {
			return // right, but long
		}
		var n int64
		part := func(offset, n int64) []byte {
			if offset < 0 || n < 0 || offset+n > int64(len(b)) {
				t.Fatalf("read of %d bytes at %d in a file of %d", n, offset, len(b))
			}
			return b[offset : offset+n]
		}
		u := &unpacker{qcow2Header: h}
		defer u.close()
		out := make([]byte, max(runSize, 1<<h.clusterBits))
		err = h.plan(t.Context(), int64(len(b)), func(_ context.Context, offset, n int64) ([]byte, error) {
			return part(offset, n), nil
		}, func(r run) error {
			if r.pos != n || r.n <= 0 {
				t.Fatalf("run of %d bytes at %d, want it at %d", r.n, r.pos, n)
			}
			n += r.n
			return u.fill(out, r, part)
		})
		if err == nil && n != int64(h.size) {
			t.Errorf("content of %d bytes, header says %d", n, h.size)
		}
	})
}

func FuzzXz(f *testing.F) {
	f.Add([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x02\x00!\x01\x16\x00\x00\x00t/\xe5\xa3\x01\x00\x04hello\x00\x00\x00\x00\xb1\x37\xb9\xdb\xe5\xda\x1e\x9b\x00\x01\x1d\x05\xb8-\x80\xaf\x1f\xb6\xf3}\x01\x00\x00\x00\x00\x04YZ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = io.CopyN(io.Discard, newXzReader(bytes.NewReader(b)), 1<<20)
	})
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte("untrusted comment: x\nRUQ=\ntrusted comment: y\nAAAA\n"), "RWQ=")
	f.Fuzz(func(_ *testing.T, text []byte, key string) {
		v := &verifier{}
		_ = v.setSignature(key, text)
	})
}

func FuzzDetect(f *testing.F) {
	f.Add([]byte("QFI\xfb"))
	f.Add(make([]byte, 2048))
	f.Fuzz(func(t *testing.T, b []byte) {
		format, err := detect(b)
		if (err == nil) == (format == "") {
			t.Errorf("detect = %q, %v", format, err)
		}
	})
}
