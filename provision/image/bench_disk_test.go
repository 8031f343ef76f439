package image_test

import (
	"crypto/sha256"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
)

// diskParameter is the kernel parameter that names the disk to be written to.
const diskParameter = "slipway.bench-disk="

// benchDisk returns the disk that this machine exists to have written over, "" on any other
// machine: its kernel was started with diskParameter, and it runs from its initramfs.
func benchDisk(b *testing.B) string {
	b.Helper()
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		b.Fatal(err)
	}
	if t := uint32(st.Type); t != unix.RAMFS_MAGIC && t != unix.TMPFS_MAGIC {
		return ""
	}
	for _, word := range strings.Fields(string(line)) {
		if name, ok := strings.CutPrefix(word, diskParameter); ok {
			return name
		}
	}
	return ""
}

// diskSize is what is written at a time: an emulated processor takes seconds for it.
const diskSize = 48 * mib

// BenchmarkDiskAgainstDD does what BenchmarkAgainstDD does to a disk of a virtual machine that
// has nothing else to do, with the device that the installer writes through and the dd of its
// medium. The last column is ours without a checksum: what is lost to hashing.
func BenchmarkDiskAgainstDD(b *testing.B) {
	name := benchDisk(b)
	if name == "" {
		b.Skip("BenchmarkVirtualDisk of internal/e2e/install runs it in a virtual machine")
	}
	content := noise(diskSize)
	source := benchFile(b, content)
	us := func(order config.Image) {
		d, err := disk.HostDevices{}.Open(name, true)
		if err != nil {
			b.Fatal(err)
		}
		size, err := d.Size()
		if err != nil {
			b.Fatal(err)
		}
		order.URLs = []string{"http://file/image"}
		w := image.NewWriter(image.Config{Client: &http.Client{Transport: fileTransport{path: source}}})
		if _, err := w.Write(b.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: size}); err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
	shell := func(script string) {
		if out, err := exec.Command("sh", "-e", "-c", script, source, name).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	inTurn(b, diskSize,
		&column{name: "us", run: func() { us(config.Image{Checksum: sha(content)}) }},
		&column{name: "dd", part: true, run: func() { shell(`dd if="$0" of="$1" bs=4M conv=notrunc,fsync`) }},
		&column{name: "hash", part: true, run: func() { _ = sha256.Sum256(content) }},
		&column{name: "sum+dd", run: func() {
			shell(`rm -f /tmp/pipe; mkfifo /tmp/pipe; sha256sum < /tmp/pipe & tee /tmp/pipe < "$0" | dd of="$1" bs=4M iflag=fullblock conv=notrunc,fsync; wait`)
		}},
		&column{name: "us-unverified", run: func() { us(config.Image{Unverified: true}) }})
}
