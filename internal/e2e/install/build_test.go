//go:build e2e

package install_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/media"
)

// tool runs a program in dir.
func tool(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// kernel is an unpacked kernel package.
type kernel struct {
	image   string
	modules string
	version string
}

// getKernel downloads Debian's kernel for clouds, which has the drivers of virtual
// machines, and unpacks it; it need not be installed.
func getKernel(t testing.TB) kernel {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "slipway-e2e", "kernel")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := kernelPackage(dir)
	if name == "" { // apt has no lists yet
		apt(t, dir, "update")
		if name = kernelPackage(dir); name == "" {
			t.Fatal("apt knows no linux-image-cloud-amd64")
		}
	}
	root := filepath.Join(dir, name)
	if _, err := os.Stat(filepath.Join(root, "ready")); err != nil {
		apt(t, dir, "download", name)
		debs, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
		if err != nil || len(debs) == 0 {
			t.Fatalf("no package %s was downloaded: %v", name, err)
		}
		tool(t, dir, "dpkg-deb", "-x", debs[len(debs)-1], root)
		version := strings.TrimPrefix(name, "linux-image-")
		tool(t, dir, "depmod", "-b", root, version)
		if err := os.WriteFile(filepath.Join(root, "ready"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version := strings.TrimPrefix(name, "linux-image-")
	return kernel{image: filepath.Join(root, "boot/vmlinuz-"+version), modules: filepath.Join(root, "lib/modules", version), version: version}
}

// apt runs apt-get, again when it fails: another apt may be at work, the network may
// hiccup, and lists that are old name packages that are no more.
func apt(t testing.TB, dir string, args ...string) {
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

// installerProgram builds the installer's program and returns its path.
func installerProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "installer")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/slipway-project/slipway/cmd/installer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// buildInstaller builds what starts the installer. What c does not say is as in all tests.
func buildInstaller(t *testing.T, k kernel, c media.Config) media.Output {
	t.Helper()
	if c.Installer == "" {
		c.Installer = installerProgram(t)
	}
	c.Kernel, c.Modules, c.Stub, c.Arch = k.image, k.modules, efiStub, "amd64"
	c.Programs = append([]string{"/bin/busybox", "/usr/sbin/e2fsck", "/usr/sbin/resize2fs"}, c.Programs...)
	c.CommandLine = "console=ttyS0 quiet net.ifnames=0 panic=5 no_timer_check"
	o, err := media.Build(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// efiStub starts a kernel from an EFI program.
const efiStub = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub"

// tinyInit is the first process of the tiny system: it says what became of it.
const tinyInit = `#!/bin/sh
export PATH=/bin:/sbin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev 2>/dev/null
hostname -F /etc/hostname
echo "TINY-BOOT-OK host=$(hostname) rootmb=$(df -m / | awk 'NR==2{print $2}') cmdline=$(cat /proc/cmdline) marker=$(cat /etc/marker) script=$(cat /etc/script) end" > /dev/ttyS0
sync; poweroff -f
`

// agentInit is the first process of the tiny system with an agent: it reaches the network of
// the emulator, and does what cloud-init would.
const agentInit = `#!/bin/sh
export PATH=/bin:/sbin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev 2>/dev/null
hostname -F /etc/hostname
exec </dev/null >/dev/ttyS0 2>&1
echo "TINY-AGENT-BOOT host=$(hostname)"
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
/bin/tinycloud &
while :; do wait; sleep 5; done
`

// loadModules is the part of a script that loads what a medium has for virtual machines.
const loadModules = `for m in $(cat /modules/always); do
  for d in $(grep "^$m:" /modules/modules.dep | cut -d: -f2); do l="$d $l"; done
  for d in $l $m; do insmod /modules/$d 2>/dev/null; done; l=
done
`

// tinyRamdisk mounts the root file system.
const tinyRamdisk = `#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
` + loadModules + `for i in 1 2 3 4 5 6 7 8 9 10; do r=$(findfs LABEL=rootfs 2>/dev/null) && break; sleep 0.3; done
mount -t ext4 "$r" /newroot && exec switch_root /newroot /sbin/init
echo TINY-RAMDISK-FAIL; sh
`

// rootMiB is the size of the root file systems of images.
const rootMiB = 64

// system is what an image holds besides the tiny system.
type system struct {
	init     string            // the first process
	programs map[string]string // files on this machine, by their path in the image
	esp      int               // MiB of the EFI system partition; 0 means 16
}

// buildImage makes a disk image of 82 MiB that boots by UEFI, raw. Each 64 MiB that further
// programs need are further parts of the root file system.
func buildImage(t *testing.T, k kernel, initrd string, y system) []byte {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	write := func(name, text string, mode os.FileMode) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "boot/efi", "var"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	write("bin/busybox", string(busybox), 0o755)
	for _, applet := range strings.Fields(tool(t, dir, "/bin/busybox", "--list")) {
		if applet != "busybox" {
			_ = os.Symlink("busybox", filepath.Join(root, "bin", applet))
		}
	}
	image, err := os.ReadFile(k.image)
	if err != nil {
		t.Fatal(err)
	}
	write("boot/vmlinuz", string(image), 0o644)
	write("boot/initrd.img", initrd, 0o644)
	write("etc/fstab", "LABEL=rootfs / ext4 defaults 0 1\n", 0o644)
	write("etc/hostname", "image\n", 0o644)
	write("etc/os-release", "ID=tiny\n", 0o644)
	write("sbin/init", y.init, 0o755)
	size, esp := rootMiB, cmp.Or(y.esp, 16)
	for name, from := range y.programs {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(b), 0o755)
		size += (len(b)>>20/rootMiB + 1) * rootMiB / 2
	}
	write("boot/grub/grub.cfg", "set timeout=0\nmenuentry 'Tiny' {\n  search --no-floppy --label rootfs --set=root\n  linux /boot/vmlinuz root=LABEL=rootfs rw console=ttyS0 quiet no_timer_check\n  initrd /boot/initrd.img\n}\n", 0o644)
	tool(t, dir, "mke2fs", "-q", "-t", "ext4", "-L", "rootfs", "-d", root, "root.img", fmt.Sprintf("%dM", size))
	early := "search --no-floppy --label rootfs --set=root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
	if err := os.WriteFile(filepath.Join(dir, "early.cfg"), []byte(early), 0o644); err != nil {
		t.Fatal(err)
	}
	modules := "part_gpt ext2 fat search search_label normal linux configfile serial terminal echo test"
	tool(t, dir, "grub-mkstandalone", "-O", "x86_64-efi", "-o", "grub.efi", "--install-modules="+modules, "--modules="+modules, "--fonts=", "--themes=", "--locales=", "boot/grub/grub.cfg=early.cfg")
	tool(t, dir, "mkfs.vfat", "-C", "-n", "ESP", "-F", "16", "esp.img", fmt.Sprint(esp<<10))
	// No fallback loader: only the boot entry that the installer makes leads here.
	tool(t, dir, "mmd", "-i", "esp.img", "::/EFI", "::/EFI/tiny")
	tool(t, dir, "mcopy", "-i", "esp.img", "grub.efi", "::/EFI/tiny/grubx64.efi")
	return join(t, dir, size, esp)
}

// join makes a disk of the two file systems.
func join(t *testing.T, dir string, root, esp int) []byte {
	t.Helper()
	size := int64(2+esp+root) << 20
	raw := make([]byte, size)
	table, err := disk.NewTable([]config.Partition{{Label: "efi", SizeMiB: uint64(esp), FileSystem: "vfat", MountPoint: "/boot/efi"}, {Label: "root", SizeMiB: uint64(root), FileSystem: "ext4", MountPoint: "/"}}, size, 512, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Write(memory(raw), size); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"esp.img", "root.img"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		copy(raw[table.Partitions[i].Start:], b)
	}
	return raw
}

// memory is a disk in memory.
type memory []byte

func (m memory) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(len(m)) {
		return 0, io.ErrShortWrite
	}
	return copy(m[at:], p), nil
}

func compress(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ramdisk makes the tiny system's first root file system with the medium's means.
func ramdisk(t *testing.T, k kernel) string {
	t.Helper()
	return initramfs(t, k, tinyRamdisk)
}

// initramfs makes one whose first process is a script.
func initramfs(t testing.TB, k kernel, init string, programs ...string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "init")
	if err := os.WriteFile(script, []byte(init), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := media.Initrd(media.Config{Installer: script, Programs: append([]string{"/bin/busybox"}, programs...), Modules: k.modules})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
