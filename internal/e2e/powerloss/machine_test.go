//go:build e2e

package powerloss_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/e2e/powerloss"
	"github.com/slipway-project/slipway/provision/media"
)

// tool runs a program in dir.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// lab is what all machines have in common.
type lab struct {
	dir            string // of files and sockets; its name is short enough for the latter
	kernel, initrd string
}

// newLab gets Debian's kernel for clouds, without installing it, and packs the
// guest with the drivers of its disk.
func newLab(t *testing.T) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "powerloss")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := kernelPackage(dir)
	if name == "" { // apt has no lists yet
		apt(t, dir, "update")
		if name = kernelPackage(dir); name == "" {
			t.Fatal("apt knows no linux-image-cloud-amd64")
		}
	}
	apt(t, dir, "download", name)
	debs, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(debs) == 0 {
		t.Fatalf("no package %s was downloaded: %v", name, err)
	}
	tool(t, dir, "dpkg-deb", "-x", debs[0], "root")
	version := strings.TrimPrefix(name, "linux-image-")
	tool(t, dir, "depmod", "-b", "root", version)
	l := &lab{dir: dir, kernel: filepath.Join(dir, "root/boot/vmlinuz-"+version), initrd: filepath.Join(dir, "initrd")}
	l.pack(t, filepath.Join(dir, "root/lib/modules", version))
	return l
}

// apt runs apt-get, again when it fails: another apt may be at work, the network may
// hiccup, and lists that are old name packages that are no more.
func apt(t *testing.T, dir string, args ...string) {
	t.Helper()
	var failures []string
	for range 5 {
		cmd := exec.Command("apt-get", append([]string{"-q", "-o", "Acquire::Retries=3"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		failures = append(failures, fmt.Sprintf("%v\n%s", err, out))
		<-time.After(10 * time.Second)
		again := exec.Command("apt-get", "-q", "update")
		if out, err := again.CombinedOutput(); err != nil {
			failures = append(failures, fmt.Sprintf("apt-get update: %v\n%s", err, out))
		}
	}
	t.Fatalf("apt-get %s: %s", strings.Join(args, " "), strings.Join(failures, "\n"))
}

// kernelPackage returns the package that Debian's kernel for clouds stands for, "" if
// apt does not know.
func kernelPackage(dir string) string {
	cmd := exec.Command("apt-cache", "depends", "linux-image-cloud-amd64")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(out), "\n") {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok {
			return p
		}
	}
	return ""
}

// pack makes the first root file system.
func (l *lab) pack(t *testing.T, modules string) {
	t.Helper()
	guest := filepath.Join(l.dir, "guest")
	tool(t, "", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", guest, "./guest")
	var a media.Archive
	add := func(from, to string, mode uint32) {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		a.File(to, mode, b)
	}
	add(guest, "init", 0o755)
	a.Dir("dev")
	a.Dir("data")
	a.Char("dev/console", 0o600, 5, 1)
	for i, m := range inOrder(t, modules, "virtio_pci", "virtio_blk") {
		_, ext, _ := strings.Cut(filepath.Base(m), ".")
		add(filepath.Join(modules, m), fmt.Sprintf("modules/%02d.%s", i, ext), 0o644)
	}
	var b bytes.Buffer
	if _, err := a.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.initrd, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inOrder returns the files of modules and of what they need, in the order of loading.
func inOrder(t *testing.T, dir string, names ...string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		found := false
		for _, line := range strings.Split(string(b), "\n") {
			file, needs, _ := strings.Cut(line, ":")
			if base, _, _ := strings.Cut(filepath.Base(file), "."); base != name {
				continue
			}
			found = true
			all := append([]string{file}, strings.Fields(needs)...) // what is needed comes after what needs it
			slices.Reverse(all)
			for _, f := range all {
				if !slices.Contains(files, f) {
					files = append(files, f)
				}
			}
		}
		if !found {
			t.Fatalf("the kernel has no module %s", name)
		}
	}
	return files
}

// newDisk returns a disk with an empty ext4 file system.
func (l *lab) newDisk(t *testing.T) *powerloss.Disk {
	t.Helper()
	image := filepath.Join(l.dir, "image")
	tool(t, l.dir, "mkfs.ext4", "-q", "-F", image, "128M")
	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(image); err != nil {
		t.Fatal(err)
	}
	d, err := powerloss.NewDisk(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serve lets one machine use the disk. The channel gives the outcome when the
// machine has let go of it.
func (l *lab) serve(t *testing.T, d *powerloss.Disk) (socket string, done <-chan error) {
	t.Helper()
	socket = filepath.Join(l.dir, "disk")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	outcome := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			outcome <- err
			return
		}
		err = d.Serve(conn)
		outcome <- errors.Join(err, conn.Close(), listener.Close())
	}()
	return socket, outcome
}

// command returns the QEMU of one boot. KVM is left alone: where it is nested, its
// device is no sign that guests run.
func (l *lab) command(t *testing.T, socket string, order powerloss.Order) *exec.Cmd {
	t.Helper()
	word, err := order.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command("qemu-system-x86_64",
		"-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "384",
		"-nodefaults", "-display", "none", "-no-reboot", "-net", "none", "-serial", "stdio",
		"-kernel", l.kernel, "-initrd", l.initrd,
		"-append", "console=ttyS0 quiet loglevel=1 panic=-1 no_timer_check "+powerloss.Variable+"="+word,
		"-drive", "file=nbd:unix:"+socket+",if=none,id=d0,format=raw,cache=writeback", "-device", "virtio-blk-pci,drive=d0")
}
