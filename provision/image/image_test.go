package image_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/image"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

func sha(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

const mib = 1 << 20

func TestEveryFormatGivesTheSameDisk(t *testing.T) {
	content := diskImage(3*mib + 12*1024)
	for name, pack := range packers {
		for _, size := range []int64{5 * mib, 3*mib + 12*1024, 4 * mib} {
			t.Run(fmt.Sprintf("%s on %d", name, size), func(t *testing.T) {
				file := pack(t, content)
				s := newServer(t)
				order := config.Image{URLs: []string{s.URL + "/missing", s.add("image", file)}, Checksum: sha(file)}
				w, d := writer(s), newDrive(t, size)
				url, _, err := w.Check(t.Context(), order)
				if err != nil || url != order.URLs[1] {
					t.Fatalf("Check = %q, %v", url, err)
				}
				r, err := w.Write(t.Context(), order, image.Target{URL: url, Device: d, Size: size})
				if err != nil {
					t.Fatal(err)
				}
				if r.Bytes != int64(len(content)) || r.Checksum != sha(file) || r.Format != name {
					t.Errorf("Write = %+v", r)
				}
				if got := d.content(t)[:len(content)]; !bytes.Equal(got, content) {
					t.Errorf("content differs at byte %d", firstDifference(got, content))
				}
			})
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func TestBothEndsAreWrittenLast(t *testing.T) {
	content := diskImage(8 * mib)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	d := newDrive(t, 8*mib)
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
		t.Fatal(err)
	}
	if got, want := d.ops[:3], []string{"write 0+1048576", "write 7340032+1048576", "sync"}; !slices.Equal(got, want) {
		t.Errorf("first: %v, want %v", got, want)
	}
	if got, want := d.ops[len(d.ops)-5:], []string{"sync", "write 7340032+1048576", "sync", "write 0+1048576", "sync"}; !slices.Equal(got, want) {
		t.Errorf("last: %v, want %v", got, want)
	}
	zeros, ends := 0, 0
	for _, op := range d.ops {
		if strings.HasPrefix(op, "zero") {
			zeros++
		}
		if strings.HasPrefix(op, "write 0+") || strings.HasPrefix(op, "write 7340032+") {
			ends++
		}
	}
	if zeros == 0 || ends != 4 {
		t.Errorf("%d runs of zeros, %d writes at the ends, in %v", zeros, ends, d.ops)
	}
}

func TestAWrongImageNeverBoots(t *testing.T) {
	content := diskImage(3*mib + 12*1024)
	truncated := func(name string) []byte {
		b := packers[name](t, content)
		return b[:len(b)-len(b)/3]
	}
	for _, tc := range []struct {
		name  string
		file  []byte
		order config.Image
		size  int64
		kind  error
	}{
		{"wrong checksum, raw", content, config.Image{Checksum: sha([]byte("x"))}, 8 * mib, image.ErrMismatch},
		{"wrong checksum, zstd", packers["zstd"](t, content), config.Image{Checksum: sha(content)}, 8 * mib, image.ErrMismatch},
		{"wrong checksum, qcow2", packers["qcow2"](t, content), config.Image{Checksum: sha(content)}, 8 * mib, image.ErrMismatch},
		{"wrong checksum of content", packers["gzip"](t, content), config.Image{Checksum: sha([]byte("x")), Of: config.OfContent}, 8 * mib, image.ErrMismatch},
		{"too large, raw", content, config.Image{Unverified: true}, 2 * mib, image.ErrTooLarge},
		{"too large, zstd", packers["zstd"](t, content), config.Image{Unverified: true}, 2 * mib, image.ErrTooLarge},
		{"too large, qcow2", packers["qcow2"](t, content), config.Image{Unverified: true}, 2 * mib, image.ErrTooLarge},
		{"cut gzip", truncated("gzip"), config.Image{Unverified: true}, 8 * mib, image.ErrMismatch},
		{"cut zstd", truncated("zstd"), config.Image{Unverified: true}, 8 * mib, image.ErrMismatch},
		{"cut xz", truncated("xz"), config.Image{Unverified: true}, 8 * mib, image.ErrMismatch},
		{"cut lz4", truncated("lz4"), config.Image{Unverified: true}, 8 * mib, image.ErrMismatch},
		{"cut qcow2", truncated("qcow2"), config.Image{Unverified: true}, 8 * mib, errors.NotValid},
		{"zstd in zstd", packers["zstd"](t, packers["zstd"](t, content)), config.Image{Unverified: true}, 8 * mib, errors.NotSupported},
		{"qcow2 in gzip", packers["gzip"](t, packers["qcow2"](t, content)), config.Image{Unverified: true}, 8 * mib, errors.NotSupported},
		{"tar in gzip", packers["gzip"](t, append(make([]byte, 257), "ustar\x0000xxxxxxxxxxxxxxxx"...)), config.Image{Unverified: true}, 8 * mib, errors.NotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			tc.order.URLs = []string{s.add("image", tc.file)}
			d := newDrive(t, tc.size)
			_, err := writer(s).Write(t.Context(), tc.order, image.Target{URL: tc.order.URLs[0], Device: d, Size: tc.size})
			if !errors.Is(err, tc.kind) {
				t.Errorf("Write = %v, want %v", err, tc.kind)
			}
			if d.bootable(t) {
				t.Error("the ends of the disk hold something")
			}
		})
	}
}

func TestChecksumKinds(t *testing.T) {
	content := diskImage(3 * mib)
	file := packers["zstd"](t, content)
	for name, order := range map[string]config.Image{
		"sha512 of the file":    {Checksum: fmt.Sprintf("sha512:%x", sha512.Sum512(file))},
		"sha256 without prefix": {Checksum: fmt.Sprintf("%X", sha256.Sum256(file))},
		"of the content":        {Checksum: sha(content), Of: config.OfContent},
		"sha512 of the content": {Checksum: fmt.Sprintf("%x", sha512.Sum512(content)), Of: config.OfContent},
		"none, allowed":         {Unverified: true},
	} {
		s := newServer(t)
		order.URLs = []string{s.add("image", file)}
		d := newDrive(t, 4*mib)
		if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}}
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: newDrive(t, mib), Size: mib}); !errors.Is(err, errors.NotValid) {
		t.Errorf("neither checksum nor signature: %v, want NotValid", err)
	}
}

func TestTheContentsHashOfQcow2CoversItsHoles(t *testing.T) {
	content := diskImage(3 * mib)
	for _, zst := range []bool{false, true} {
		s := newServer(t)
		order := config.Image{URLs: []string{s.add("image", qcow2Image(t, content, zst))}, Checksum: sha(content), Of: config.OfContent}
		d := newDrive(t, 4*mib)
		if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
			t.Errorf("zstd %v: %v", zst, err)
		}
	}
}

func TestACutConnectionIsResumed(t *testing.T) {
	content := diskImage(3*mib + 12*1024)
	for name, pack := range packers {
		t.Run(name, func(t *testing.T) {
			file := pack(t, content)
			s := newServer(t)
			order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(file)}
			s.cut, s.cuts = int64(len(file)/5), 4
			d := newDrive(t, 6*mib)
			if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
				t.Fatal(err)
			}
			if got := d.content(t)[:len(content)]; !bytes.Equal(got, content) {
				t.Errorf("content differs at byte %d", firstDifference(got, content))
			}
			asked := s.asked()
			if want := fmt.Sprintf(`/image bytes=%d- "v1"`, len(file)/5); len(asked) < 4 || asked[2] != want {
				t.Errorf("requests = %q, want the third %q", asked, want)
			}
		})
	}
}

func TestWhatResumingRefuses(t *testing.T) {
	content := diskImage(4 * mib)
	for _, tc := range []struct {
		name string
		edit func(*server)
		kind error
		text string
	}{
		{"another version", func(s *server) { s.after = func(n int) { s.etag = fmt.Sprintf(`"v%d"`, n/3) } }, image.ErrMismatch, "changed while it was read"},
		{"a server without parts", func(s *server) { s.noRange = true }, nil, "serves no parts"},
		{"a server that forgets parts", func(s *server) { s.after = func(n int) { s.noRange = n > 2 } }, image.ErrMismatch, "the whole file instead of a part"},
		{"a fault for ever", func(s *server) {
			s.after = func(n int) {
				if n > 2 {
					s.status = []int{503}
				}
			}
		}, nil, "gave up at byte"},
		{"gone", func(s *server) {
			s.after = func(n int) {
				if n > 2 {
					delete(s.files, "/image")
				}
			}
		}, errors.NotFound, "404"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
			s.cut, s.cuts = mib, 1
			tc.edit(s)
			d := newDrive(t, 6*mib)
			_, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size})
			if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Write = %v, want %v %q", err, tc.kind, tc.text)
			}
			if d.bootable(t) {
				t.Error("the ends of the disk hold something")
			}
		})
	}
}

func TestASilentConnectionIsGivenUpAndResumed(t *testing.T) {
	content := diskImage(2 * mib)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	s.stalls = 2
	w := image.NewWriter(image.Config{Client: s.Client(), Pause: time.Millisecond, Stall: 2 * time.Second})
	d := newDrive(t, 4*mib)
	if _, err := w.Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); err != nil {
		t.Fatal(err)
	}
	if got := d.content(t)[:len(content)]; !bytes.Equal(got, content) {
		t.Error("content differs")
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	content := diskImage(2 * mib)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	s.status = []int{503, 429}
	if _, _, err := writer(s).Check(t.Context(), order); err != nil {
		t.Errorf("Check = %v", err)
	}
}

func TestAnEndedContextEndsTheWriting(t *testing.T) {
	content := diskImage(4 * mib)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", packers["zstd"](t, content))}, Unverified: true}
	ctx, cancel := context.WithCancel(t.Context())
	s.stalls = 1
	s.after = func(n int) {
		if n == 2 {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	}
	d := newDrive(t, 6*mib)
	if _, err := writer(s).Write(ctx, order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want canceled", err)
	}
}

func TestADiskThatFailsIsReported(t *testing.T) {
	content := diskImage(4 * mib)
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", packers["lz4"](t, content))}, Unverified: true}
	d := newDrive(t, 6*mib)
	d.failAt = 3 * mib
	d.size = 3 * mib // its end can be cleared
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: 6 * mib}); err == nil {
		t.Error("Write succeeded")
	}
}

func TestFormatsRefusedByName(t *testing.T) {
	pad := func(s string) []byte { return append([]byte(s), make([]byte, 4096)...) }
	window, err := zstd.NewWriter(nil, zstd.WithWindowSize(256*mib))
	if err != nil {
		t.Fatal(err)
	}
	var big bytes.Buffer
	window.Reset(&big)
	for range 300 { // a frame whose window is declared, not its size
		if _, err := window.Write(make([]byte, mib)); err != nil {
			t.Fatal(err)
		}
	}
	if err := window.Close(); err != nil {
		t.Fatal(err)
	}
	dictionary := packers["xz"](t, diskImage(mib))
	setDictionary(t, dictionary, 34) // 512 MiB
	for _, tc := range []struct {
		name string
		file []byte
		kind error
		text string
	}{
		{"bzip2", pad("BZh9"), errors.NotSupported, "bzip2"},
		{"zip", pad("PK\x03\x04"), errors.NotSupported, "zip"},
		{"VMDK", pad("KDMV"), errors.NotSupported, "VMDK"},
		{"VHDX", pad("vhdxfile"), errors.NotSupported, "VHDX"},
		{"tar", append(make([]byte, 257), pad("ustar")...), errors.NotSupported, "tar"},
		{"a page", pad("\n<!DOCTYPE html><html>"), errors.NotValid, "HTML"},
		{"nothing", nil, errors.NotValid, "0 bytes"},
		{"a zstd window of 256 MiB", big.Bytes(), errors.NotSupported, "zstd window of 256 MiB (at most 128 MiB)"},
		{"an xz dictionary of 512 MiB", dictionary, errors.NotSupported, "xz window of 512 MiB (at most 128 MiB)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			order := config.Image{URLs: []string{s.add("image", tc.file)}, Unverified: true}
			_, _, err := writer(s).Check(t.Context(), order)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Check = %v, want %q", err, tc.text)
			}
			d := newDrive(t, 4*mib)
			if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); !errors.Is(err, tc.kind) {
				t.Errorf("Write = %v, want %v", err, tc.kind)
			}
		})
	}
}

func TestALaterFrameWithALargeWindowIsRefused(t *testing.T) {
	var big bytes.Buffer
	w, err := zstd.NewWriter(&big, zstd.WithWindowSize(256*mib))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.Write(make([]byte, mib)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	xzBig := packers["xz"](t, diskImage(mib))
	setDictionary(t, xzBig, 34)
	for name, file := range map[string][]byte{
		"zstd": append(packers["zstd"](t, diskImage(2*mib)), big.Bytes()...),
		"xz":   append(packers["xz"](t, diskImage(2*mib)), xzBig...),
	} {
		s := newServer(t)
		order := config.Image{URLs: []string{s.add("image", file)}, Unverified: true}
		d := newDrive(t, 8*mib)
		if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); !errors.Is(err, errors.NotSupported) {
			t.Errorf("%s: Write = %v, want NotSupported", name, err)
		}
		if d.bootable(t) {
			t.Errorf("%s: the ends of the disk hold something", name)
		}
	}
}

func TestRedirectsLeadToNoWeakerTransport(t *testing.T) {
	s := newServer(t)
	content := diskImage(mib)
	s.add("image", content)
	hop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.URL+"/image", http.StatusFound) })
	secure := newTLSServer(t, hop)
	w := image.NewWriter(image.Config{Client: secure.Client(), Pause: time.Millisecond})
	if _, _, err := w.Check(t.Context(), config.Image{URLs: []string{secure.URL + "/x"}, Unverified: true}); err == nil || !strings.Contains(err.Error(), "redirect from https to http") {
		t.Errorf("Check = %v, want the redirect refused", err)
	}
}
