package image_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-project/slipway/provision/config"
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

const benchSize = 256 * mib

// fileDrive is a plain file as a disk: writes go to the file system's cache, and
// Sync brings them to the medium.
type fileDrive struct{ *os.File }

func (fileDrive) Size() (int64, error) { return benchSize, nil }
func (fileDrive) Reread() error        { return nil }

func (f fileDrive) Sync() error { return unix.Fdatasync(int(f.Fd())) }

func newFileDrive(b *testing.B) fileDrive {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "disk"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(benchSize); err != nil {
		b.Fatal(err)
	}
	return fileDrive{f}
}

// write streams an image once.
func write(b *testing.B, s *server, order config.Image, d fileDrive) {
	b.Helper()
	if _, err := writer(s).Write(b.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: benchSize}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWrite gives MB/s of content from loopback HTTP to a file, hashed and brought
// to the medium.
func BenchmarkWrite(b *testing.B) {
	content := noise(benchSize)
	for _, name := range []string{"raw", "zstd", "gzip", "lz4"} {
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
			})
		}
	}
}

// BenchmarkAgainstDD writes the same bytes in turn by us, over loopback HTTP and hashed; by
// dd from a file with conv=fdatasync, which neither hashes nor receives; and by a pipe of dd
// and sha256sum, which is the same work without the network. Each is run at least ten times; all columns are
// shown, and the metrics are the medians. Where the file system is as fast as memory, dd shows the memory.
func BenchmarkAgainstDD(b *testing.B) {
	content := noise(benchSize)
	source := filepath.Join(b.TempDir(), "source")
	if err := os.WriteFile(source, content, 0o600); err != nil {
		b.Fatal(err)
	}
	s := newServer(b)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	ours, theirs := newFileDrive(b), newFileDrive(b)
	var us, dd, pipe []float64
	command := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	speed := func(f func()) float64 {
		start := time.Now()
		f()
		return benchSize / 1e6 / time.Since(start).Seconds()
	}
	b.SetBytes(benchSize)
	for b.Loop() {
		for range 10 {
			us = append(us, speed(func() { write(b, s, order, ours) }))
			dd = append(dd, speed(func() { command("dd", "if="+source, "of="+theirs.Name(), "bs=1M", "conv=notrunc,fdatasync") }))
			pipe = append(pipe, speed(func() {
				command("bash", "-c", `set -o pipefail; tee >(sha256sum >&2) < "$0" | dd of="$1" bs=1M iflag=fullblock conv=notrunc,fdatasync; wait`, source, theirs.Name())
			}))
		}
	}
	var table strings.Builder
	for i := range us {
		fmt.Fprintf(&table, "%6.0f %6.0f %6.0f\n", us[i], dd[i], pipe[i])
	}
	b.Logf("MB/s by us, by dd, by sha256sum and dd:\n%s", table.String())
	b.ReportMetric(median(us), "us-MB/s")
	b.ReportMetric(median(dd), "dd-MB/s")
	b.ReportMetric(median(pipe), "sum+dd-MB/s")
}
