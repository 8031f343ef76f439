package image_test

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"github.com/slipway-project/slipway/provision/image"
)

// server serves files, and misbehaves as told.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	etag     string
	cut      int64 // bytes of a body after which the connection is cut; 0 never
	cuts     int   // how often; -1 is always
	noRange  bool
	noSize   bool
	short    int   // a part is given this many bytes at most, and says so; 0 for as many as asked for
	status   []int // answered first, one for each request
	stalls   int   // requests that stop in the middle until they are given up
	requests []string
	after    func(n int) // called before request n, from 1
}

func newServer(t testing.TB) *server {
	s := &server{files: map[string][]byte{}, etag: `"v1"`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// add serves data under name and returns its URL.
func (s *server) add(name string, data []byte) string {
	s.files["/"+name] = data
	return s.URL + "/" + name
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.Path+" "+r.Header.Get("Range")+" "+r.Header.Get("If-Match"))
	n := len(s.requests)
	if s.after != nil {
		s.after(n)
	}
	data, ok := s.files[r.URL.Path]
	etag, noRange := s.etag, s.noRange
	code := 0
	if len(s.status) > 0 {
		code, s.status = s.status[0], s.status[1:]
	}
	limit := int64(-1)
	whole := !strings.Contains(r.Header.Get("Range"), "bytes=0-2047")
	if s.cut > 0 && s.cuts != 0 && whole {
		limit = s.cut
		s.cuts--
	}
	stall := false
	if s.stalls > 0 && whole {
		stall = true
		s.stalls--
	}
	s.mu.Unlock()
	if code != 0 {
		w.WriteHeader(code)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", etag)
	if m := r.Header.Get("If-Match"); m != "" && m != etag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	start, end := 0, len(data)
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && !noRange && len(data) > 0 {
		a, b, _ := strings.Cut(spec, "-")
		start, _ = strconv.Atoi(a)
		if b != "" {
			last, _ := strconv.Atoi(b)
			end = min(end, last+1)
		}
		if s.short > 0 && whole {
			end = min(end, start+s.short)
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, end-1, len(data)))
		w.Header().Set("Content-Length", strconv.Itoa(end-start))
		w.WriteHeader(http.StatusPartialContent)
	} else if !s.noSize {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	body := data[start:end]
	if stall {
		_, _ = w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if limit >= 0 && int64(len(body)) > limit {
		_, _ = w.Write(body[:limit])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

// asked returns the requests so far.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// writer returns a writer that does not wait long.
func writer(s *server) *image.Writer {
	return image.NewWriter(image.Config{Client: s.Client(), Arch: "amd64", Pause: time.Millisecond, Stall: 10 * time.Second})
}

// drive is a disk in a file that records what is done to it.
type drive struct {
	*os.File
	size   int64
	mu     sync.Mutex
	ops    []string // "write at+n", "zero at+n", "sync"
	failAt int64    // writes that reach this byte fail; 0 never
}

// newDrive returns a drive full of old data, so that a gap shows.
func newDrive(t testing.TB, size int64) *drive {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	old := bytes.Repeat([]byte{0xAA}, 1<<20)
	for at := int64(0); at < size; at += int64(len(old)) {
		if _, err := f.WriteAt(old[:min(int64(len(old)), size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
	return &drive{File: f, size: size}
}

func (d *drive) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops = append(d.ops, fmt.Sprintf(format, args...))
}

func (d *drive) WriteAt(p []byte, at int64) (int, error) {
	d.note("write %d+%d", at, len(p))
	if d.failAt > 0 && at+int64(len(p)) > d.failAt {
		return 0, io.ErrShortWrite
	}
	return d.File.WriteAt(p, at)
}

func (d *drive) Zero(at, n int64) error {
	d.note("zero %d+%d", at, n)
	_, err := d.File.WriteAt(make([]byte, n), at)
	return err
}

func (d *drive) Size() (int64, error) { return d.size, nil }
func (d *drive) Reread() error        { return nil }
func (d *drive) Sync() error {
	d.note("sync")
	return nil
}

// content returns what is on the drive.
func (d *drive) content(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, d.size)
	if _, err := d.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// bootable reports whether either end of the drive holds anything.
func (d *drive) bootable(t testing.TB) bool {
	b := d.content(t)
	return len(bytes.Trim(b[:1<<20], "\x00")) > 0 || len(bytes.Trim(b[len(b)-1<<20:], "\x00")) > 0
}

// disk makes n bytes that look like a disk: data, holes of zeros, and noise.
func diskImage(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	for at := 0; at < n; at += 512 << 10 {
		switch (at / (512 << 10)) % 3 {
		case 0:
			_, _ = r.Read(b[at:min(n, at+300<<10)])
		case 1:
			copy(b[at:], bytes.Repeat([]byte("text that compresses "), 1000))
		}
	}
	b[510], b[511] = 0x55, 0xAA
	return b
}

// packedXz remembers what was packed: SHA-256 of the content -> file.
var packedXz sync.Map

// packers compress in each format.
var packers = map[string]func(t testing.TB, b []byte) []byte{
	"raw": func(_ testing.TB, b []byte) []byte { return b },
	"gzip": func(t testing.TB, b []byte) []byte {
		return pack(t, b, func(w io.Writer) io.WriteCloser { return kgzip.NewWriter(w) })
	},
	"zstd": packZstd,
	"xz": func(t testing.TB, b []byte) []byte {
		key := sha256.Sum256(b)
		if out, ok := packedXz.Load(key); ok { // slow to pack
			return bytes.Clone(out.([]byte))
		}
		one := func(b []byte, check byte) []byte {
			return pack(t, b, func(w io.Writer) io.WriteCloser {
				z, err := xz.WriterConfig{BlockSize: 1 << 20, CheckSum: check}.NewWriter(w)
				if err != nil {
					t.Fatal(err)
				}
				return z
			})
		}
		// Two streams of several blocks each, with padding between them.
		out := append(one(b[:len(b)/2], xz.CRC64), make([]byte, 8)...)
		out = append(out, one(b[len(b)/2:], xz.SHA256)...)
		packedXz.Store(key, bytes.Clone(out))
		return out
	},
	"lz4": func(t testing.TB, b []byte) []byte {
		return pack(t, b, func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) })
	},
	"qcow2": func(t testing.TB, b []byte) []byte { return qcow2Image(t, b, false) },
}

func packZstd(t testing.TB, b []byte) []byte {
	return pack(t, b, func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	})
}

func pack(t testing.TB, b []byte, open func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := open(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// qcow2Shape says how an image is made.
type qcow2Shape struct {
	bits   int  // of a cluster's size
	packed int  // every so manieth cluster is compressed; 0 for none
	zstd   bool // by zstd, otherwise by deflate
	mixed  bool // the clusters are in the file in any order
}

// qcow2Image makes an image with clusters of 64 KiB, every third of them compressed.
func qcow2Image(t testing.TB, b []byte, zst bool) []byte {
	return qcow2Shape{bits: 16, packed: 3, zstd: zst}.image(t, b)
}

// image makes an image of version 3: clusters of zeros are absent, or marked as zeros.
func (q qcow2Shape) image(t testing.TB, b []byte) []byte {
	t.Helper()
	cluster := 1 << q.bits
	be := binary.BigEndian
	n := (len(b) + cluster - 1) / cluster
	l2s := (n + cluster/8 - 1) / (cluster / 8)
	tables := cluster + (l2s*8+cluster-1)/cluster*cluster // behind the header and the first table
	out := make([]byte, tables+l2s*cluster)
	copy(out, "QFI\xfb")
	be.PutUint32(out[4:], 3)
	be.PutUint32(out[20:], uint32(q.bits))
	be.PutUint64(out[24:], uint64(len(b)))
	be.PutUint32(out[36:], uint32(l2s))
	be.PutUint64(out[40:], uint64(cluster))
	be.PutUint32(out[96:], 4)
	be.PutUint32(out[100:], 112)
	if q.zstd {
		be.PutUint64(out[72:], 1<<3)
		out[104] = 1
	}
	for i := range l2s {
		be.PutUint64(out[cluster+8*i:], uint64(tables+i*cluster)|1<<63)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if q.mixed {
		rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		c := make([]byte, cluster)
		copy(c, b[i*cluster:])
		entry := uint64(0)
		switch {
		case len(bytes.Trim(c, "\x00")) == 0:
			if i%2 == 0 {
				entry = 1
			}
		case q.packed > 0 && i%q.packed == 0:
			packed := packCluster(t, c, q.zstd)
			at := len(out)
			sectors := uint64((at%512 + len(packed) - 1) / 512)
			entry = 1<<62 | sectors<<(62-(q.bits-8)) | uint64(at)
			out = append(out, packed...)
		default:
			out = append(out, make([]byte, (cluster-len(out)%cluster)%cluster)...)
			entry = uint64(len(out)) | 1<<63
			out = append(out, c...)
		}
		be.PutUint64(out[tables+8*i:], entry)
	}
	return out
}

func packCluster(t testing.TB, c []byte, zst bool) []byte {
	if zst {
		return packZstd(t, c)
	}
	return pack(t, c, func(w io.Writer) io.WriteCloser {
		z, err := flate.NewWriter(w, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		return z
	})
}
