package image_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
)

// column is one thing that is timed in turn with others.
type column struct {
	name string
	part bool // one of the things, of one thread, that the first column does all of
	run  func()
	mbs  []float64
	cpu  []float64 // processor time of a run, ms: of this process, its server included, and of children
}

// processor returns the time that this process and its ended children have computed for.
func processor() time.Duration {
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		_ = unix.Getrusage(who, &u)
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}

// inTurn runs the columns one after the other on n bytes, ten times for each iteration, shows
// what each run gave in MB/s and the processor time that it took, and reports the medians: of
// each column, of the first column's part of the second, pair by pair, and of its part of the
// bound that those columns set that are parts of it.
func inTurn(b *testing.B, n int, columns ...*column) {
	b.Helper()
	b.SetBytes(int64(n))
	for b.Loop() {
		for range 10 {
			for _, c := range columns {
				start, used := time.Now(), processor()
				c.run()
				c.mbs = append(c.mbs, float64(n)/1e6/time.Since(start).Seconds())
				c.cpu = append(c.cpu, float64((processor()-used).Microseconds())/1e3)
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(os.Stderr, "%s, load average %.5s\n", b.Name(), load)
	var ofSecond, ofBound []float64
	us := columns[0]
	for i := range us.mbs {
		row := ""
		for _, c := range columns {
			row += fmt.Sprintf(" %s %.0f (%.0f ms),", c.name, c.mbs[i], c.cpu[i])
		}
		ofSecond = append(ofSecond, 100*us.mbs[i]/columns[1].mbs[i])
		row = fmt.Sprintf("%s %.0f %% of %s", row, ofSecond[i], columns[1].name)
		if bound, by := bound(i, columns); bound > 0 {
			ofBound = append(ofBound, 100*us.mbs[i]/bound)
			row += fmt.Sprintf(", %.0f %% of what %s would let through", ofBound[i], by)
		}
		fmt.Fprintf(os.Stderr, "pair %d, MB/s (processor time):%s\n", i+1, row)
	}
	for _, c := range columns {
		fmt.Fprintf(os.Stderr, "%s: median %.0f MB/s, %.0f to %.0f, processor time %.0f ms\n", c.name, median(c.mbs), slices.Min(c.mbs), slices.Max(c.mbs), median(c.cpu))
		b.ReportMetric(median(c.mbs), c.name+"-MB/s")
		b.ReportMetric(median(c.cpu), c.name+"-cpu-ms")
	}
	b.ReportMetric(median(ofSecond), "%of-"+columns[1].name)
	if len(ofBound) > 0 {
		b.ReportMetric(median(ofBound), "%of-bound")
	}
}

// bound returns the most MB/s that a whole can have whose parts, each of one thread, were as fast as
// in run i: it is no faster than the slowest of them, nor than all of them shared evenly among the
// processors. It also says which of the two it is. Without parts it returns 0.
func bound(i int, columns []*column) (float64, string) {
	var longest, all float64 // microseconds for a byte
	by := ""
	for _, c := range columns {
		if !c.part {
			continue
		}
		all += 1 / c.mbs[i]
		if 1/c.mbs[i] > longest {
			longest, by = 1/c.mbs[i], c.name+" alone"
		}
	}
	if shared := all / float64(runtime.NumCPU()); shared > longest {
		longest, by = shared, fmt.Sprintf("%d processors", runtime.NumCPU())
	}
	if longest == 0 {
		return 0, ""
	}
	return 1 / longest, by
}

// fileTransport answers requests from a file, whole or from a place, without a connection: it
// takes part in what costs time as little as the file that dd reads.
type fileTransport struct {
	path  string
	delay time.Duration // before each answer
}

func (f fileTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.delay > 0 {
		<-time.After(f.delay)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	start, end := int64(0), st.Size()
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {`"v1"`}}, Request: r}
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, to, _ := strings.Cut(spec, "-")
		start, _ = strconv.ParseInt(from, 10, 64)
		if last, err := strconv.ParseInt(to, 10, 64); err == nil {
			end = min(end, last+1)
		}
		resp.StatusCode = http.StatusPartialContent
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, end-1, st.Size()))
	}
	resp.ContentLength = end - start
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, start, end-start), file}
	return resp, nil
}

// writeFile writes the image in a file, read through a transport that is no network.
func writeFile(b *testing.B, t fileTransport, order config.Image, d disk.Device) {
	b.Helper()
	w := image.NewWriter(image.Config{Client: &http.Client{Transport: t}})
	if _, err := w.Write(b.Context(), order, image.Target{URL: "http://file/image", Device: d, Size: benchSize}); err != nil {
		b.Fatal(err)
	}
}

// benchFile puts content into a file.
func benchFile(b *testing.B, content []byte) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "source")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkAgainstDD writes the same bytes in turn by us, from a file as dd does and over loopback HTTP,
// hashed; by dd bs=4M conv=fsync from a file, which does not hash; by hashing alone; and by dd with
// sha256sum behind a tee, which hashes as we do. All that write bring everything to the medium. Where
// the file system is as fast as memory, hashing is slower than dd, and sets the bound.
func BenchmarkAgainstDD(b *testing.B) {
	content := noise(benchSize)
	source := benchFile(b, content)
	s := newServer(b)
	order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
	ours, theirs := newFileDrive(b), newFileDrive(b)
	command := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	inTurn(b, benchSize,
		&column{name: "us", run: func() { writeFile(b, fileTransport{path: source}, order, ours) }},
		&column{name: "dd", part: true, run: func() { command("dd", "if="+source, "of="+theirs.Name(), "bs=4M", "conv=notrunc,fsync") }},
		&column{name: "hash", part: true, run: func() { _ = sha256.Sum256(content) }},
		&column{name: "us-http", run: func() { write(b, s, order, ours) }},
		&column{name: "sum+dd", run: func() {
			command("bash", "-c", `set -o pipefail; tee >(sha256sum >&2) < "$0" | dd of="$1" bs=4M iflag=fullblock conv=notrunc,fsync; wait`, source, theirs.Name())
		}})
}

// BenchmarkAgainstCopy does the same to disks of given speeds, such as hard disks' and those
// of flash behind SATA, against a loop that copies blocks of 4 MiB as dd does: it shows what
// is lost where it is not memory that is written to.
func BenchmarkAgainstCopy(b *testing.B) {
	content := noise(benchSize)
	for _, mbs := range []float64{200, 500, 1000} {
		b.Run(fmt.Sprintf("disk of %.0f MB per s", mbs), func(b *testing.B) {
			s := newServer(b)
			order := config.Image{URLs: []string{s.add("image", content)}, Checksum: sha(content)}
			d := &pacedDrive{rate: mbs * 1e6, sink: sink{look: func() {}}}
			inTurn(b, benchSize,
				&column{name: "us", run: func() { write(b, s, order, d) }},
				&column{name: "copy", run: func() {
					for at := 0; at < benchSize; at += 4 * mib {
						_, _ = d.WriteAt(content[at:at+4*mib], int64(at))
					}
					_ = d.Sync()
				}})
		})
	}
}

// BenchmarkParts writes packed images whose content is hashed, in turn with unpacking alone, hashing
// the content alone, hashing the file alone, and writing alone. With a core for each the whole is as fast as
// the slowest of them; on one it would be as fast as their sum, which is the second column.
func BenchmarkParts(b *testing.B) {
	for _, format := range []string{"zstd", "lz4", "gzip", "xz"} {
		b.Run(format, func(b *testing.B) {
			content := prose(benchSize / map[string]int{"zstd": 1, "lz4": 1, "gzip": 4, "xz": 16}[format]) // slow ones take long enough
			file := packers[format](b, content)
			source := benchFile(b, file)
			order := config.Image{URLs: []string{"http://file/image"}, Checksum: sha(content), Of: config.OfContent}
			d := newFileDrive(b)
			unpack := func() {
				z, err := image.Unpack(format, bytes.NewReader(file))
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = z.Close() }()
				if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{z}, make([]byte, mib)); err != nil {
					b.Fatal(err)
				}
			}
			hash := func() { _ = sha256.Sum256(content) }
			hashFile := func() { _ = sha256.Sum256(file) }
			save := func() {
				for at := 0; at < len(content); at += mib {
					if _, err := d.WriteAt(content[at:at+mib], int64(at)); err != nil {
						b.Fatal(err)
					}
				}
				if err := d.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			inTurn(b, len(content),
				&column{name: "us", run: func() { writeFile(b, fileTransport{path: source}, order, d) }},
				&column{name: "sum", run: func() { unpack(); hash(); hashFile(); save() }},
				&column{name: "unpack", part: true, run: unpack},
				&column{name: "hash", part: true, run: hash},
				&column{name: "hash-file", part: true, run: hashFile},
				&column{name: "write", part: true, run: save})
			b.ReportMetric(float64(len(content))/float64(len(file)), "ratio")
		})
	}
}
