//go:build e2e

package install_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

// installs boots the installer, waits for its success, and boots the disk.
func installs(t *testing.T, l *lab, c *controller, m *machine, order config.MachineConfig) {
	t.Helper()
	r := m.boot(l.medium(t, c.order(order, 1)), c.port(t))
	r.wait(t, 6*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Fatalf("last status %+v; console:\n%s", c.last(), r.console())
	}
	bootsFromDisk(t, m, "host=node-7", "marker=from-the-controller")
}

// toQCOW2 makes a compressed qcow2 image of a raw one.
func toQCOW2(t *testing.T, raw []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "raw"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, dir, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "raw", "q")
	b, err := os.ReadFile(filepath.Join(dir, "q"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// qcow2 is read twice: once to verify it, then by parts. The old disk is full of
// something else.
func qcow2(t *testing.T, l *lab) {
	b := toQCOW2(t, l.raw)
	c := newController(t, b)
	m := newMachine(t, gib)
	old := bytes.Repeat([]byte("old data "), 16<<20)
	if err := os.WriteFile(m.disk, old[:64<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.disk, gib); err != nil {
		t.Fatal(err)
	}
	order := l.order()
	order.Image.Checksum = fmt.Sprintf("sha256:%x", sha256.Sum256(b))
	installs(t, l, c, m, order)
}

// nvme installs on an NVMe disk: its partitions are named with a p.
func nvme(t *testing.T, l *lab) {
	m := newMachine(t, gib)
	m.device = "nvme,serial=VDISK1"
	installs(t, l, newController(t, l.image), m, l.order())
}

// hint installs on the disk that the hint names, although another one would be chosen
// without it; that other one is not touched.
func hint(t *testing.T, l *lab) {
	m := newMachine(t, gib)
	other := filepath.Join(m.dir, "other")
	data := bytes.Repeat([]byte("data that must stay "), 1<<20)
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m.extra = []string{"-drive", "file=" + other + ",if=none,id=d1,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d1,serial=OTHER"}
	order := l.order()
	order.RootDevice = config.DiskHints{Serial: "VDISK1"}
	installs(t, l, newController(t, l.image), m, order)
	got, err := os.ReadFile(other)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the other disk was changed: %v", err)
	}
}

// volumesRamdisk mounts a root file system that is on a logical volume.
const volumesRamdisk = `#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
` + loadModules + `DM_DISABLE_UDEV=1 lvm vgchange -ay
r=$(findfs LABEL=rootfs) && mount -t ext4 "$r" /newroot && exec switch_root /newroot /sbin/init
echo TINY-RAMDISK-FAIL; sh
`

// layout divides the disk as ordered, with the root file system on a logical volume, and writes
// an image that is that file system alone. A command brings the loader, which is a kernel
// with all it needs, from the image to the EFI system partition that the layout made.
func layout(t *testing.T, l *lab) {
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	program, err := media.UKI(read(efiStub), read(l.kernel.image), []byte(initramfs(t, l.kernel, volumesRamdisk, "/usr/sbin/lvm")), "root=LABEL=rootfs rw console=ttyS0 quiet no_timer_check")
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(t.TempDir(), "loader")
	if err := os.WriteFile(loader, program, 0o600); err != nil {
		t.Fatal(err)
	}
	raw := buildImage(t, l.kernel, "", system{init: tinyInit, programs: map[string]string{"boot/loader.efi": loader}})
	root := compress(t, raw[17<<20:len(raw)-1<<20]) // between the EFI system partition and the table's copy
	c := newController(t, root)
	m := newMachine(t, gib)
	order := l.order()
	order.Image.Checksum = fmt.Sprintf("sha256:%x", sha256.Sum256(root))
	order.Kernel = config.Kernel{}
	order.Layout = &config.Layout{
		Partitions: []config.Partition{{Label: "efi", SizeMiB: 64, FileSystem: "vfat", MountPoint: "/boot/efi"}, {Label: "pv"}},
		LVM: &config.LVM{VolumeGroup: "vg0", Partition: 2, Volumes: []config.Volume{
			{Name: "data", SizeMiB: 60, FileSystem: "ext4", MountPoint: "/data"}, {Name: "root", FileSystem: "ext4", MountPoint: "/"}}},
	}
	order.Commands = append(order.Commands, "mkdir -p /boot/efi/EFI/tiny\ncp /boot/loader.efi /boot/efi/EFI/tiny/grubx64.efi")
	installer := buildInstaller(t, l.kernel, media.Config{Programs: []string{"/usr/sbin/lvm", "/usr/sbin/mkfs.vfat", "/usr/sbin/mkfs.ext4"}})
	with := &lab{kernel: l.kernel, installer: installer}
	installs(t, with, c, m, order)
}

// kexec goes from the installer straight into the installed system: one boot of the
// firmware, and the system says what became of it in the same run.
func kexec(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	order := l.order()
	order.Finish = config.FinishKexec
	r := m.boot(l.medium(t, c.order(order, 1)), c.port(t))
	r.wait(t, 6*time.Minute)
	if text := r.console(); c.last().State != config.StateSuccess || !strings.Contains(text, "TINY-BOOT-OK host=node-7") {
		t.Errorf("last status %+v; console:\n%s", c.last(), text)
	}
}

// bond reaches the controller by a static address on a bond of one port, which is
// named by its MAC address; a VLAN on the bond has an address of its own.
func bond(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	boot := c.order(l.order(), 1)
	boot.Network = config.Network{
		Bonds:   []config.Bond{{Name: "bond0", Members: []string{"52:54:00:12:34:56"}, Mode: "active-backup"}}, // QEMU's first port
		VLANs:   []config.VLAN{{ID: 7, Parent: "bond0"}},
		Static:  []config.Address{{Link: "bond0", Address: "10.0.2.15/24", Gateway: "10.0.2.2"}, {Link: "bond0.7", Address: "2001:db8::7/64"}},
		Timeout: 120,
	}
	r := m.boot(l.medium(t, boot), c.port(t))
	r.wait(t, 6*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Errorf("last status %+v; console:\n%s", c.last(), r.console())
	}
}

// secureBoot shows that an installer that nobody signed does not start where the
// firmware wants a signature: the machine asks for nothing.
func secureBoot(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	m.secure = true
	m.forget(variablesSecure)
	r := m.boot(l.medium(t, c.order(l.order(), 1)), c.port(t))
	deadline := time.After(3 * time.Minute)
	for !strings.Contains(r.console(), "Access Denied") {
		select {
		case <-deadline:
			t.Fatalf("the firmware did not refuse; console:\n%s", r.console())
		case err := <-r.done:
			t.Fatalf("the machine ended: %v; console:\n%s", err, r.console())
		case <-time.After(200 * time.Millisecond):
		}
	}
	r.cut()
	if s := c.last(); s.State != "" {
		t.Errorf("the machine reported %+v", s)
	}
}
