package state_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

func version(t *testing.T, text string) binaries.Version {
	t.Helper()
	v, err := binaries.Parse(text)
	must(t, err)
	return v
}

// parts counts the documents that hold bytes.
func parts(t *testing.T, s store.Store) int {
	t.Helper()
	page, err := s.List(ctx, store.Query{Collection: "blobs"})
	must(t, err)
	return len(page.Docs)
}

func TestBinaries(t *testing.T) {
	site := statetest.Open(t)
	all := site.Binaries()
	content := bytes.Repeat([]byte("0123456789abcdef"), 70_000) // three parts
	sum := sha256.Sum256(content)
	jammy := version(t, "3.5.0-jammy-amd64")
	b, err := all.Upload(ctx, jammy, bytes.NewReader(content), hex.EncodeToString(sum[:]))
	if err != nil || b.Size != int64(len(content)) || b.SHA256 != hex.EncodeToString(sum[:]) || b.Version != jammy {
		t.Fatalf("Upload = %+v, %v", b, err)
	}
	if n := parts(t, site.Store); n != 3 {
		t.Errorf("%d parts, want 3", n)
	}
	var got bytes.Buffer
	known, err := all.Get(ctx, jammy)
	must(t, err)
	if err := all.WriteTo(ctx, known, &got); err != nil || !bytes.Equal(got.Bytes(), content) {
		t.Errorf("WriteTo = %v, and %d bytes, want what was uploaded", err, got.Len())
	}
	if _, err := all.Upload(ctx, jammy, bytes.NewReader(content), ""); err != nil {
		t.Errorf("the same again = %v, want a success", err)
	}
	if _, err := all.Upload(ctx, jammy, strings.NewReader("other"), ""); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("other content = %v, want it refused", err)
	}
	if _, err := all.Upload(ctx, version(t, "3.10.0-jammy-amd64"), strings.NewReader("newer"), ""); err != nil {
		t.Fatal(err)
	}
	list, err := all.All(ctx)
	if err != nil || len(list) != 2 || list[0].Version != jammy {
		t.Errorf("All = %+v, %v, want both, the older one first", list, err)
	}
	if n := parts(t, site.Store); n != 4 {
		t.Errorf("%d parts, want those of two binaries", n)
	}
}

// broken is a connection that ends in the middle.
type broken struct{ left int }

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

func TestUploadsThatFailLeaveNothing(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	v := version(t, "3.5.0-jammy-amd64")
	tests := []struct {
		name string
		r    io.Reader
		want string // the SHA-256
		is   error
	}{
		{"no bytes", strings.NewReader(""), "", errors.NotValid},
		{"other bytes", strings.NewReader("abc"), strings.Repeat("0", 64), errors.NotValid},
		{"cut off", &broken{1 << 20}, "", io.ErrClosedPipe},
		{"too many bytes", io.LimitReader(zeroes{}, state.MaxBinary+1), "", state.ErrTooBig},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := site.Binaries().Upload(ctx, v, test.r, test.want); !errors.Is(err, test.is) {
				t.Errorf("Upload = %v, want %v", err, test.is)
			}
			if n := parts(t, site.Store); n != 0 {
				t.Errorf("%d parts are left", n)
			}
		})
	}
	if _, err := site.Binaries().Get(ctx, v); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get = %v, want not found", err)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// dying is an upload during which the process ends: nothing can be written any
// more.
type dying struct {
	io.Reader
	end func()
}

func (d dying) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil {
		d.end()
	}
	return n, err
}

func TestCleanerRemovesWhatAnEndedProcessLeft(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	var gone atomic.Bool
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if gone.Load() && c.Method == "Apply" {
			return errors.New("gone")
		}
		return nil
	})
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	upload := dying{io.LimitReader(zeroes{}, 1<<20), func() { gone.Store(true) }}
	if _, err := site.Binaries().Upload(context.Background(), version(t, "3.5.0-jammy-amd64"), upload, ""); err == nil {
		t.Fatal("Upload without a store succeeds")
	}
	gone.Store(false)
	if n := parts(t, site.Store); n == 0 {
		t.Fatal("no parts are left: the test shows nothing")
	}
	now := time.Now()
	next, err := site.Cleanups().Run(ctx, now)
	if err != nil || next.Before(now.Add(50*time.Minute)) || parts(t, site.Store) == 0 {
		t.Errorf("Run = %v, %v, want the parts to stay while the upload may go on", next, err)
	}
	if next, err = site.Cleanups().Run(ctx, now.Add(2*time.Hour)); err != nil || !next.IsZero() || parts(t, site.Store) != 0 {
		t.Errorf("Run = %v, %v, and %d parts, want none", next, err, parts(t, site.Store))
	}
}

func TestDamagedBinaryIsNotSent(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	all := site.Binaries()
	b, err := all.Upload(ctx, version(t, "3.5.0-jammy-amd64"), strings.NewReader("abc"), "")
	must(t, err)
	page, err := site.Store.List(ctx, store.Query{Collection: "blobs"})
	must(t, err)
	d := page.Docs[0]
	must(t, site.Store.Apply(ctx, []store.Op{store.Replace(d.Key, d.Rev, []byte(`{"data":"YWJk"}`), nil)}))
	var got bytes.Buffer
	if err := all.WriteTo(ctx, b, &got); !errors.Is(err, errors.NotValid) || got.Len() != 0 {
		t.Errorf("WriteTo = %v, and %q, want it refused", err, got.String())
	}
}
