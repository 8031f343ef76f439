package image_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
)

// hook is a transport that asks before each request for a part in the second pass. An answer is
// taken instead of the server's.
type hook struct {
	http.RoundTripper
	before func(r *http.Request) (*http.Response, error)
}

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("If-Match") != "" {
		if resp, err := h.before(r); resp != nil || err != nil {
			return resp, err
		}
	}
	return h.RoundTripper.RoundTrip(r)
}

// status is an answer without a body.
func status(r *http.Request, code int) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: http.NoBody, Header: http.Header{}, Request: r}
}

// writeHooked writes file to d with a hook before the second pass's requests.
func writeHooked(ctx context.Context, t *testing.T, file []byte, d disk.Device, before func(*http.Request) (*http.Response, error)) error {
	t.Helper()
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(file)}
	w := image.NewWriter(image.Config{Client: &http.Client{Transport: hook{s.Client().Transport, before}}, Pause: time.Millisecond})
	size, err := d.Size()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(ctx, order, image.Target{URL: order.URLs[0], Device: d, Size: size})
	return err
}

// brokenDrive fails writes of one byte; at 0 it never fails.
type brokenDrive struct {
	*drive
	at int64
}

var errDisk = errors.ConstError("disk is broken")

func (d brokenDrive) WriteAt(p []byte, at int64) (int, error) {
	if d.at > 0 && at <= d.at && d.at < at+int64(len(p)) {
		return 0, errDisk
	}
	return d.drive.WriteAt(p, at)
}

// part returns the first and the last byte that a request asks for.
func part(t *testing.T, spec string) (first, last int64) {
	t.Helper()
	if _, err := fmt.Sscanf(spec, "bytes=%d-%d", &first, &last); err != nil {
		t.Errorf("Range %q: %v", spec, err)
	}
	return first, last
}

func TestQcow2OfAllShapes(t *testing.T) {
	for _, shape := range []qcow2Shape{
		{bits: 9, packed: 3}, {bits: 12, packed: 2, zstd: true, mixed: true}, {bits: 16}, {bits: 16, mixed: true}, {bits: 16, packed: 1},
		{bits: 16, packed: 1, zstd: true, mixed: true}, {bits: 20, packed: 2}, {bits: 21, packed: 2, mixed: true}, {bits: 21, packed: 1, zstd: true},
	} {
		t.Run(fmt.Sprintf("%+v", shape), func(t *testing.T) {
			n := 7*mib + 3*512
			if shape.bits < 16 {
				n = 2*mib + 512
			}
			content := diskImage(n)
			file := shape.image(t, content)
			s := newServer(t)
			order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(content), Of: config.OfContent}
			d := newDrive(t, int64(n)+mib)
			if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
				t.Fatal(err)
			}
			if at := firstDifference(d.content(t)[:n], content); at >= 0 {
				t.Errorf("disk differs at byte %d", at)
			}
		})
	}
}

// TestNeighboursComeWithOneRequest has clusters in their order, and wants few requests, none of
// which is for what was loaded already.
func TestNeighboursComeWithOneRequest(t *testing.T) {
	content := noise(32 * mib)
	file := qcow2Shape{bits: 16}.image(t, content)
	var mu sync.Mutex
	var specs []string
	d := newDrive(t, 33*mib)
	if err := writeHooked(t.Context(), t, file, d, func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		specs = append(specs, r.Header.Get("Range"))
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(specs) > 12 { // 33 pieces in fours, and the header's
		t.Errorf("%d requests for %d bytes, want 12 at most: %v", len(specs), len(file), specs)
	}
	var sum int64
	for _, spec := range specs {
		first, last := part(t, spec)
		if sum += last + 1 - first; last-first >= 4*mib {
			t.Errorf("request for %s, want 4 MiB at most", spec)
		}
	}
	if sum != int64(len(file)) {
		t.Errorf("%d bytes were asked for in the second pass, want each of %d once: %v", sum, len(file), specs)
	}
}

// TestSeveralRequestsAreUnderWay holds each request until three are there.
func TestSeveralRequestsAreUnderWay(t *testing.T) {
	content := noise(32 * mib)
	file := qcow2Shape{bits: 16}.image(t, content)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var mu sync.Mutex
	waiting, enough := 0, make(chan struct{})
	d := newDrive(t, 33*mib)
	err := writeHooked(ctx, t, file, d, func(r *http.Request) (*http.Response, error) {
		if first, _ := part(t, r.Header.Get("Range")); first == 0 {
			return nil, nil // the header and the tables
		}
		mu.Lock()
		if waiting++; waiting == 3 {
			close(enough)
		}
		mu.Unlock()
		select {
		case <-enough:
			return nil, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})
	if err != nil {
		t.Fatalf("%v with %d requests, want 3 at once", err, waiting)
	}
	if at := firstDifference(d.content(t)[:len(content)], content); at >= 0 {
		t.Errorf("disk differs at byte %d", at)
	}
}

// TestTheFirstErrorEndsAllRequests has the first part not come, and another that cannot be had:
// nobody waits for the first.
func TestTheFirstErrorEndsAllRequests(t *testing.T) {
	file := qcow2Shape{bits: 16}.image(t, noise(32*mib))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	held := make(chan struct{})
	var once sync.Once
	d := newDrive(t, 33*mib)
	err := writeHooked(ctx, t, file, d, func(r *http.Request) (*http.Response, error) {
		switch first, _ := part(t, r.Header.Get("Range")); {
		case first == 0:
			return nil, nil
		case first < 5*mib:
			once.Do(func() { close(held) })
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		select {
		case <-held:
		case <-r.Context().Done():
		}
		return status(r, http.StatusNotFound), nil
	})
	if !errors.Is(err, errors.NotFound) || ctx.Err() != nil || d.bootable(t) {
		t.Errorf("Write = %v after %v, want NotFound at once, and nothing at the ends", err, ctx.Err())
	}
}

func TestFaultsInTheMiddleOfQcow2(t *testing.T) {
	content := noise(24 * mib)
	file := qcow2Shape{bits: 16, packed: 4}.image(t, content)
	for _, tc := range []struct {
		name  string
		fault func(n int, r *http.Request, cancel func()) (*http.Response, error) // at request n, from 1
		disk  int64                                                               // byte at which the disk fails
		kind  error
	}{
		{name: "busy server", fault: func(n int, r *http.Request, _ func()) (*http.Response, error) {
			if n%2 == 0 {
				return status(r, http.StatusServiceUnavailable), nil
			}
			return nil, nil
		}},
		{name: "broken connections", fault: func(n int, _ *http.Request, _ func()) (*http.Response, error) {
			if n%2 == 0 {
				return nil, errors.New("connection reset")
			}
			return nil, nil
		}},
		{name: "file gone", kind: errors.NotFound, fault: func(n int, r *http.Request, _ func()) (*http.Response, error) {
			if n > 3 {
				return status(r, http.StatusNotFound), nil
			}
			return nil, nil
		}},
		{name: "file changed", kind: image.ErrMismatch, fault: func(n int, r *http.Request, _ func()) (*http.Response, error) {
			if n > 3 {
				return status(r, http.StatusPreconditionFailed), nil
			}
			return nil, nil
		}},
		{name: "cancelled", kind: context.Canceled, fault: func(n int, r *http.Request, cancel func()) (*http.Response, error) {
			if n > 3 {
				cancel()
				return nil, r.Context().Err()
			}
			return nil, nil
		}},
		{name: "disk fails", disk: 9 * mib, kind: errDisk},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := newDrive(t, 25*mib)
			var mu sync.Mutex
			n := 0
			err := writeHooked(ctx, t, file, brokenDrive{d, tc.disk}, func(r *http.Request) (*http.Response, error) {
				if tc.fault == nil {
					return nil, nil
				}
				mu.Lock()
				defer mu.Unlock()
				n++
				return tc.fault(n, r, cancel)
			})
			if tc.kind == nil {
				if err != nil {
					t.Fatal(err)
				}
				if at := firstDifference(d.content(t)[:len(content)], content); at >= 0 {
					t.Errorf("disk differs at byte %d", at)
				}
				return
			}
			if !errors.Is(err, tc.kind) || d.bootable(t) {
				t.Errorf("Write = %v, want %v and nothing at the ends", err, tc.kind)
			}
		})
	}
}

// TestShortParts has a server that gives less than was asked for, says so, and must be asked
// again, each time from where it ended.
func TestShortParts(t *testing.T) {
	content := noise(6 * mib)
	file := qcow2Shape{bits: 16, packed: 4}.image(t, content)
	s := newServer(t)
	s.short = 300_000
	order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(file)}
	d := newDrive(t, 7*mib)
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.content(t)[:len(content)], content) {
		t.Error("disk differs from the content")
	}
	if asked := s.asked(); len(asked) < len(file)/s.short {
		t.Errorf("%d requests, want one for each %d of %d bytes", len(asked), s.short, len(file))
	}
}

// TestANewTagIsRefused has the server's file replaced after the first pass.
func TestANewTagIsRefused(t *testing.T) {
	file := qcow2Shape{bits: 16}.image(t, noise(24*mib))
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(file)}
	s.after = func(n int) {
		if n == 5 {
			s.etag = `"v2"`
		}
	}
	d := newDrive(t, 25*mib)
	_, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size})
	if !errors.Is(err, image.ErrMismatch) || !strings.Contains(err.Error(), "changed while it was read") || d.bootable(t) {
		t.Errorf("Write = %v, want that the file changed, and nothing at the ends", err)
	}
}

// BenchmarkQcow2 gives MB/s of content, and the processor time, of images in a file, of which each
// answer takes so long as if its server were that far away.
func BenchmarkQcow2(b *testing.B) {
	const size = 64 * mib
	for _, c := range []struct {
		name    string
		content []byte
		shape   qcow2Shape
	}{
		{"plain", noise(size), qcow2Shape{bits: 16}},
		{"deflate", prose(size), qcow2Shape{bits: 16, packed: 1}},
		{"zstd", prose(size), qcow2Shape{bits: 16, packed: 1, zstd: true}},
	} {
		file := c.shape.image(b, c.content)
		source := benchFile(b, file)
		order := config.Image{URLs: []string{"http://file/image"}, Checksum: sha(file)}
		d := newFileDrive(b)
		for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s, %v away", c.name, delay), func(b *testing.B) {
				b.SetBytes(size)
				used := processor()
				for b.Loop() {
					writeFile(b, fileTransport{path: source, delay: delay}, order, d)
				}
				b.ReportMetric(float64((processor()-used).Milliseconds())/float64(b.N), "cpu-ms")
			})
		}
	}
}
