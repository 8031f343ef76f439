package image_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/image"
)

// counted is a transport that counts what was read of the bodies it brought.
type counted struct {
	http.RoundTripper
	mu    sync.Mutex
	more  *sync.Cond // the count grew, or too late is set
	count int64
	late  bool
}

func newCounted(rt http.RoundTripper) *counted {
	c := &counted{RoundTripper: rt}
	c.more = sync.NewCond(&c.mu)
	return c
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = countedBody{resp.Body, c}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	c *counted
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.count += int64(n)
	b.c.more.Broadcast()
	return n, err
}

// wait returns what was read so far once that is least, or too little when it takes too long.
func (c *counted) wait(least int64) int64 {
	timer := time.AfterFunc(time.Minute, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = true
		c.more.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.count < least && !c.late {
		c.more.Wait()
	}
	return c.count
}

// slowDrive does not finish its first write between the ends before enough was loaded.
type slowDrive struct {
	sink
	c        *counted
	body     int64 // written between the ends
	waited   int64 // loaded when the first such write began to be finished
	farthest int64 // most that was loaded and not written
}

func (d *slowDrive) WriteAt(p []byte, at int64) (int, error) {
	if at < mib || at >= 31*mib {
		return len(p), nil
	}
	loaded := d.c.wait(0)
	if d.body == 0 {
		loaded = d.c.wait(10 * mib)
		d.waited = loaded
	}
	d.farthest = max(d.farthest, loaded-mib-d.body)
	d.body += int64(len(p))
	return len(p), nil
}

func TestLoadingGoesOnWhileTheDiskWrites(t *testing.T) {
	content := bytes.Repeat([]byte("sixteen bytes .."), 32*mib/16)
	s := newServer(t)
	c := newCounted(s.Client().Transport)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	d := &slowDrive{sink: sink{look: func() {}}, c: c}
	w := image.NewWriter(image.Config{Client: &http.Client{Transport: c}, Pause: time.Millisecond})
	if _, err := w.Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: 32 * mib}); err != nil {
		t.Fatal(err)
	}
	if d.waited < 10*mib {
		t.Errorf("%d bytes loaded while the first write had not ended, want 10 MiB", d.waited)
	}
	if d.farthest > 14*mib {
		t.Errorf("%d bytes loaded and not written, want 14 MiB at most", d.farthest)
	}
}

// eagerDrive records in ops what it is told to begin to bring onto the medium.
type eagerDrive struct{ *drive }

func (d eagerDrive) StartSync(at, n int64) { d.note("start %d %d", at, n) }

func TestTheDiskIsToldToBeginEarly(t *testing.T) {
	const size = 28 * mib
	content := diskImage(size)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	d := eagerDrive{newDrive(t, size)}
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: size}); err != nil {
		t.Fatal(err)
	}
	if at := firstDifference(d.content(t), content); at >= 0 {
		t.Errorf("disk differs at byte %d", at)
	}
	var end, written, starts int64
	for _, op := range d.ops[2 : len(d.ops)-4] { // between the writes at the ends
		var at, n int64
		if _, err := fmt.Sscanf(op, "write %d+%d", &at, &n); err == nil {
			written = at + n
		}
		if _, err := fmt.Sscanf(op, "start %d %d", &at, &n); err != nil {
			continue
		}
		starts++
		if at != end || at+n != written || n < 8*mib {
			t.Errorf("start of %d bytes at %d, want all from %d to %d, once there are 8 MiB", n, at, end, written)
		}
		end = at + n
	}
	if starts != 3 {
		t.Errorf("%d starts, want 3, in %v", starts, d.ops)
	}
	if last := d.ops[len(d.ops)-5:]; slices.ContainsFunc(last, func(op string) bool { return strings.HasPrefix(op, "start") }) {
		t.Errorf("last: %v, want no start among the syncs", last)
	}
}

// TestEachStageIsHeard has a hash of the file and one of the content, at once: a wrong sum of
// either refuses the image, and that of the file is reported in any case.
func TestEachStageIsHeard(t *testing.T) {
	content := diskImage(5 * mib)
	wrong := sha([]byte("other"))
	for _, format := range []string{"raw", "zstd"} {
		file := packers[format](t, content)
		for _, c := range []struct {
			name  string
			order config.Image
			ok    bool
		}{
			{"file", config.Image{Checksum: sha(file)}, true},
			{"content", config.Image{Checksum: sha(content), Of: config.OfContent}, true},
			{"wrong file", config.Image{Checksum: wrong}, false},
			{"wrong content", config.Image{Checksum: wrong, Of: config.OfContent}, false},
		} {
			t.Run(format+"/"+c.name, func(t *testing.T) {
				s := newServer(t)
				c.order.URLs = []string{s.add("image", file)}
				d := newDrive(t, 6*mib)
				result, err := writer(s).Write(t.Context(), c.order, image.Target{URL: c.order.URLs[0], Device: d, Size: d.size})
				if !c.ok {
					if !errors.Is(err, image.ErrMismatch) || d.bootable(t) {
						t.Errorf("error %v, bootable %v, want a mismatch on a disk that is not", err, d.bootable(t))
					}
					return
				}
				if err != nil || result.Checksum != sha(file) {
					t.Errorf("%+v, %v, want the file's sum %s", result, err, sha(file))
				}
			})
		}
	}
}
