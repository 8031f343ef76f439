package image_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/sys/unix"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
)

// noise is what does not compress and has no holes, so nothing can be skipped.
func noise(n int) []byte {
	b := make([]byte, n)
	one := diskImage(300 << 10)
	for at := 0; at < n; at += len(one) {
		copy(b[at:], one)
		if at+8 <= n {
			b[at] = byte(at >> 18)
		}
	}
	return b
}

// prose is n bytes that compress about as well as a system's files: words at random, repeated
// only beyond the window.
func prose(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([][]byte, 4096)
	for i := range words {
		words[i] = make([]byte, 3+r.IntN(12))
		for j := range words[i] {
			words[i][j] = byte(r.Uint32())
		}
	}
	const period = 16 * mib
	b := make([]byte, 0, n+16)
	for len(b) < min(n, period) {
		b = append(b, words[int(math.Pow(float64(len(words)), r.Float64()))-1]...)
	}
	for len(b) < n {
		b = append(b, b[:min(period, n-len(b))]...)
	}
	return b[:n]
}

const benchSize = 256 * mib

// fileDrive is a plain file as a disk: writes go to the file system's cache, and
// Sync brings them to the medium.
type fileDrive struct{ *os.File }

func (fileDrive) Size() (int64, error) { return benchSize, nil }
func (fileDrive) Reread() error        { return nil }

func (f fileDrive) Sync() error { return f.File.Sync() }

func (f fileDrive) StartSync(offset, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}

// newFileDrive returns a drive whose blocks are there already, as a disk's are.
func newFileDrive(b *testing.B) fileDrive {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "disk"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	for at := int64(0); at < benchSize; at += mib {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xAA}, mib), at); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return fileDrive{f}
}

// pacedDrive is a disk that keeps nothing and takes a given number of bytes a second, behind a
// cache of 32 MiB, which is less than what a kernel has in front of a disk.
type pacedDrive struct {
	sink
	rate float64
	free time.Time // when it has done what it was given
}

func (d *pacedDrive) WriteAt(p []byte, _ int64) (int, error) {
	if now := time.Now(); d.free.Before(now) {
		d.free = now
	}
	d.free = d.free.Add(time.Duration(float64(len(p)) / d.rate * 1e9))
	cache := time.Duration(32 * mib / d.rate * 1e9)
	if ahead := time.Until(d.free); ahead > cache {
		<-time.After(ahead - cache)
	}
	return len(p), nil
}

func (d *pacedDrive) Sync() error {
	<-time.After(time.Until(d.free))
	return nil
}

// write streams an image once.
func write(b *testing.B, s *server, order config.Image, d disk.Device) {
	b.Helper()
	if _, err := writer(s).Write(b.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: benchSize}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWrite gives MB/s of content from loopback HTTP to a file, hashed and brought
// to the medium.
func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"raw", "zstd", "gzip", "lz4"} {
		content := prose(benchSize)
		file := packers[name](b, content)
		for _, c := range []struct {
			name  string
			order config.Image
		}{{"sha256", config.Image{Checksum: sha(file)}}, {"sha256 of content", config.Image{Checksum: sha(content), Of: config.OfContent}}} {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				s := newServer(b)
				c.order.URLs = []string{s.add("image", file)}
				d := newFileDrive(b)
				b.SetBytes(benchSize)
				b.ReportAllocs()
				for b.Loop() {
					write(b, s, c.order, d)
				}
				b.ReportMetric(float64(len(content))/float64(len(file)), "ratio")
			})
		}
	}
}

// BenchmarkHash gives the speed of the hashes that an order may ask for, which is what bounds
// a fast disk. GODEBUG=cpu.sha=off shows a processor without instructions for SHA.
func BenchmarkHash(b *testing.B) {
	signature, err := blake2b.New512(nil)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, mib)
	for _, c := range []struct {
		name string
		hash hash.Hash
	}{{"sha256", sha256.New()}, {"sha512", sha512.New()}, {"blake2b of a signature", signature}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(mib)
			for b.Loop() {
				c.hash.Write(p)
			}
		})
	}
}
