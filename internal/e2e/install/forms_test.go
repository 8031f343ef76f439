//go:build e2e

package install_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/media"
)

// The keys of Debian's package ovmf that its firmware for tests trusts, and no other does.
const (
	snakeVars = "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"
	snakeKey  = "/usr/share/ovmf/PkKek-1-snakeoil.key"
	snakeCert = "/usr/share/ovmf/PkKek-1-snakeoil.pem"
)

// oldVolumes makes, in a virtual machine, a volume group with a volume in use on the first
// partition of a disk: what a machine's disk may hold when it is to be installed.
const oldVolumes = `#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
` + loadModules + `export DM_DISABLE_UDEV=1
set -ex
printf 'o\nn\np\n1\n2048\n\nt\n8e\nw\n' | fdisk /dev/vda >/dev/null
lvm pvcreate -y /dev/vda1
lvm vgcreate oldvg /dev/vda1
lvm lvcreate -y -L 300m -n olddata oldvg
mke2fs /dev/oldvg/olddata
mkdir /old; mount -t ext2 /dev/oldvg/olddata /old
echo precious > /old/file; umount /old
lvm vgchange -an; sync
echo VOLUMES-MADE; poweroff -f
`

// activeInit has volume groups active when the installer begins, as the first root file
// system of a distribution would, and tells which are.
const activeInit = `#!/bin/sh
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
l=; for m in $(cat /modules/always); do
  for d in $(grep "^$m:" /modules/modules.dep | /bin/busybox cut -d: -f2); do l="$d $l"; done
  for d in $l $m; do /bin/busybox insmod /modules/$d 2>/dev/null; done; l=
done
DM_DISABLE_UDEV=1 /bin/lvm vgchange -ay
for d in /sys/block/dm-*; do [ -e $d ] && echo "VOLUME-ACTIVE $(cat $d/dm/name) on $(ls $d/slaves)"; done
/bin/busybox umount /dev /sys /proc
exec /bin/installer
`

// withVolumes makes a disk with a volume group.
func withVolumes(t *testing.T, k kernel) string {
	t.Helper()
	dir := t.TempDir()
	disk, initrd := filepath.Join(dir, "disk"), filepath.Join(dir, "initrd")
	if err := os.WriteFile(initrd, []byte(initramfs(t, k, oldVolumes, "/usr/sbin/lvm")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, gib); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "timeout", "300", "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "1024",
		"-nodefaults", "-display", "none", "-no-reboot", "-net", "none", "-serial", "stdio", "-kernel", k.image, "-initrd", initrd,
		"-append", "console=ttyS0 quiet panic=5 no_timer_check", "-drive", "file="+disk+",if=none,id=d0,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d0").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("VOLUMES-MADE")) || !holds(t, disk, "LVM2 001") {
		t.Fatalf("no volume group was made: %v\n%s", err, out)
	}
	return disk
}

// holds reports whether a file has a text in it at all.
func holds(t *testing.T, file, text string) bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	part := make([]byte, 4<<20)
	kept := 0
	for {
		n, err := f.Read(part[kept:])
		if bytes.Contains(part[:kept+n], []byte(text)) {
			return true
		}
		if err == io.EOF {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		kept = copy(part, part[max(0, kept+n-len(text)):kept+n])
	}
}

// signedImage returns an image that starts without GRUB: its loader is kernel, parameters
// and first root file system in one program, signed.
func signedImage(t *testing.T, k kernel, raw []byte, key string) []byte {
	t.Helper()
	dir := t.TempDir()
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	program, err := media.UKI(read(efiStub), read(k.image), []byte(ramdisk(t, k)), "root=LABEL=rootfs rw console=ttyS0 quiet no_timer_check")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"loader": program, "raw": raw} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, dir, "sbsign", "--key", key, "--cert", snakeCert, "--output", "loader", "loader")
	tool(t, dir, "mdel", "-i", "raw@@1M", "::/EFI/tiny/grubx64.efi")
	tool(t, dir, "mcopy", "-i", "raw@@1M", "loader", "::/EFI/tiny/grubx64.efi")
	return read(filepath.Join(dir, "raw"))
}

// extra are QEMU's arguments for one more disk, the n-th. Without a place in the order of boots the
// firmware would drop entries for it.
func extra(n int, file, serial string) []string {
	return []string{"-drive", fmt.Sprintf("file=%s,if=none,format=raw,cache=unsafe,id=d%d", file, n), "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d,serial=%s,bootindex=%d", n, serial, n)}
}

// hostDocument describes a host for import-hosts.
func hostDocument(c *chain, n int, annotations, hints string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s-bmc}
stringData: {username: admin, password: calvin}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: %[1]s
  annotations: {%[2]s}
spec:
  online: true
  bootMACAddress: "52:54:00:00:01:%02[3]d"
  rootDeviceHints: {%[4]s}
  bmc:
    address: redfish-virtualmedia+http://%[5]s/redfish/v1/Systems/%[6]d
    credentialsName: %[1]s-bmc
`, c.hosts[n], annotations, n, hints, c.bmc, n+1)
}

// forms is the chain with hosts that are not like the others, by their place in the rack.
type forms struct {
	*chain
	lab              *lab
	kept, root, junk string // disks of host disks
	trunk            *trunk
	signed           string // installer
}

const (
	formNVMe = iota
	formDisks
	formVolumes
	formVLAN
	formSecure
)

// filled writes a file of that many bytes of a text and returns its path.
func filled(t *testing.T, text string, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(name, bytes.Repeat([]byte(text), (4<<20)/len(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return name
}

func newForms(t *testing.T) *forms {
	t.Helper()
	l := newLab(t)
	f := &forms{lab: l, trunk: newTrunk(t), kept: filled(t, "data that must stay ", 64<<20), root: filled(t, "old system ", gib), junk: filled(t, "junk ", 64<<20)}
	keyDir := t.TempDir()
	tool(t, keyDir, "openssl", "rsa", "-in", snakeKey, "-passin", "pass:snakeoil", "-out", "key")
	script := filepath.Join(keyDir, "init")
	if err := os.WriteFile(script, []byte(activeInit), 0o755); err != nil {
		t.Fatal(err)
	}
	medium := media.Config{Installer: script, Programs: []string{"/usr/sbin/lvm", installerProgram(t)}}
	l.installer = buildInstaller(t, l.kernel, medium)
	medium.SignKey, medium.SignCert = filepath.Join(keyDir, "key"), snakeCert
	f.signed = buildInstaller(t, l.kernel, medium).EFI
	f.chain = newChain(t, l, rack{
		hosts: []string{"nvme", "disks", "volumes", "vlan", "secure"},
		machines: map[string]any{
			fmt.Sprint(formNVMe):   map[string]any{"disk-device": "nvme"},
			fmt.Sprint(formDisks):  map[string]any{"args": append(extra(2, f.root, "DISK0000011"), extra(3, f.junk, "JUNK")...)},
			fmt.Sprint(formVLAN):   map[string]any{"args": f.trunk.args(), "port": "trunk"},
			fmt.Sprint(formSecure): map[string]any{"secure-boot": true, "vars": snakeVars},
		},
		disks:  map[int]string{formVolumes: withVolumes(t, l.kernel), formDisks: f.kept},
		worker: []string{"--installer-boot", "200s"},
	})
	large := f.system()
	large.esp = 40 // for a loader that is a kernel
	signed := signedImage(t, l.kernel, buildImage(t, l.kernel, ramdisk(t, l.kernel), large), medium.SignKey)
	documents := hostDocument(f.chain, formNVMe, "slipway/wipe: soft", "") +
		hostDocument(f.chain, formDisks, "slipway/keep-disks: DISK0000010", "serialNumber: DISK0000011") +
		hostDocument(f.chain, formVolumes, "", "") +
		hostDocument(f.chain, formVLAN, fmt.Sprintf(`slipway/installer-network: '{"vlans":[{"id":%d,"parent":"eth0"}],"static":[{"link":"eth0.%d","address":"10.0.2.77/24","gateway":"10.0.2.2"}]}'`, vlanID, vlanID), "") +
		hostDocument(f.chain, formSecure, "", "")
	for name, b := range map[string][]byte{"hosts.yaml": []byte(documents), "site/images/tiny.qcow2": toQCOW2(t, f.raw), "site/images/signed.zst": compress(t, signed)} {
		if err := os.WriteFile(filepath.Join(f.dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.slipway("import-hosts", "hosts.yaml")
	for _, h := range f.hosts {
		f.shows(3*time.Minute, "ready", "show-host", h)
	}
	return f
}

// add puts a machine on a host, with an image that the controller serves.
func (f *forms) add(n int, image string) {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, "site", "images", image))
	if err != nil {
		f.t.Fatal(err)
	}
	f.model("https://"+address+"/installer/images/"+image, b)
	f.slipway("add-machine", "--to", "host="+f.hosts[n])
	f.shows(3*time.Minute, "of model", "show-host", f.hosts[n])
}

// console returns what a host's machine has printed.
func (f *forms) console(n int) string {
	f.t.Helper()
	b, err := os.ReadFile(f.file(n, "console.log"))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r", "")
}

// started waits for the agent of a host's machine, and looks for what the installer logged.
func (f *forms) started(id string, n int, want ...string) {
	f.t.Helper()
	f.shows(12*time.Minute, "started", "show-machine", id)
	f.shows(time.Minute, "provisioned", "show-host", f.hosts[n])
	log := f.slipway("show-host", f.hosts[n], "--log")
	for _, w := range want {
		if !strings.Contains(log, w) {
			f.t.Errorf("log of host %s lacks %q:\n%s", f.hosts[n], w, log)
		}
	}
}

// free removes a host's machine, and waits until the host is to be had again.
func (f *forms) free(id string, n int, want string) {
	f.t.Helper()
	f.slipway("remove-machine", id)
	f.shows(12*time.Minute, "state:     ready", "show-host", f.hosts[n])
	if shown := f.slipway("show-host", f.hosts[n]); !strings.Contains(shown, want) || strings.Contains(shown, "machine "+id) {
		f.t.Errorf("host %s after the removal of its machine, want %q:\n%s", f.hosts[n], want, shown)
	}
}

// TestForms is the chain's long form: hosts with an NVMe disk, with several disks of which
// one is to be kept, with a volume group on the old disk, behind a VLAN, and with Secure Boot.
func TestForms(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("the long form: test/soak.sh runs it")
	}
	f := newForms(t)
	f.add(formSecure, "signed.zst") // it takes longest: three boots are refused
	f.add(formNVMe, "tiny.qcow2")
	f.add(formDisks, "tiny.zst")
	f.nvme("1")
	f.severalDisks("2")
	f.add(formVolumes, "tiny.zst")
	f.add(formVLAN, "tiny.zst")
	f.volumes("3")
	f.vlan("4")
	f.secureBoot("0")
}

// nvme installs a qcow2 image on an NVMe disk; removed softly, the data stays and does not boot.
func (f *forms) nvme(id string) {
	f.t.Helper()
	f.started(id, formNVMe, "disk to install on: /dev/nvme0n1 (serial DISK0000000")
	f.free(id, formNVMe, "wipe, done")
	if log := f.slipway("show-host", "nvme", "--log"); !strings.Contains(log, "renamed boot/grub/grub.cfg") || f.emptyDisk(formNVMe) {
		f.t.Errorf("after a soft removal; is the disk empty: %v; log:\n%s", f.emptyDisk(formNVMe), log)
	}
	if !holds(f.t, f.file(formNVMe, "disk.img"), "GNU GRUB") && !holds(f.t, f.file(formNVMe, "disk.img"), "TINY-AGENT-BOOT") {
		f.t.Error("the data of a softly removed machine is gone")
	}
	m := &machine{t: f.t, dir: f.t.TempDir(), disk: f.file(formNVMe, "disk.img"), nvr: f.file(formNVMe, "nvram.fd"), device: "nvme,serial=DISK0000000"}
	r := m.boot("", "")
	defer r.cut()
	f.until(4*time.Minute, "the boot loader has nothing to start", func() bool {
		return strings.Contains(r.console(), "grub>") || strings.Contains(r.console(), "No bootable option")
	})
	if strings.Contains(r.console(), "TINY-AGENT-BOOT") {
		f.t.Errorf("the system still boots:\n%s", r.console())
	}
}

// severalDisks installs on the disk that the hint names; a disk that is to be kept is, when the machine
// goes, and any other fixed one is wiped.
func (f *forms) severalDisks(id string) {
	f.t.Helper()
	f.started(id, formDisks, "(serial DISK0000011")
	if !holds(f.t, f.junk, "junk") {
		f.t.Error("a disk that nothing is installed on was wiped")
	}
	f.free(id, formDisks, "wipe, done")
	log := f.slipway("show-host", "disks", "--log")
	for _, want := range []string{"keep /dev/vda (serial DISK0000010", "is listed in keep-disks", "wipe /dev/vdb (serial DISK0000011", "wipe /dev/vdc (serial JUNK"} {
		if !strings.Contains(log, want) {
			f.t.Errorf("log of the wipe lacks %q:\n%s", want, log)
		}
	}
	if !holds(f.t, f.file(formDisks, "disk.img"), "data that must stay") {
		f.t.Error("the disk that was to be kept was not")
	}
	for name, file := range map[string]string{"root": f.root, "junk": f.junk} {
		m := &machine{t: f.t, disk: file}
		if len(bytes.Trim(m.ends(), "\x00")) > 0 {
			f.t.Errorf("the ends of disk %s are not empty", name)
		}
	}
}

// volumes installs on a disk that is in use by an active volume group of the old system.
func (f *forms) volumes(id string) {
	f.t.Helper()
	f.started(id, formVolumes)
	console := f.console(formVolumes)
	if !strings.Contains(console, "VOLUME-ACTIVE oldvg-olddata on vda1") {
		f.t.Errorf("the old volume was not active; console:\n%s", tail(console, 4000))
	}
	disk := f.file(formVolumes, "disk.img")
	if holds(f.t, disk, "LABELONE") {
		f.t.Error("the label of the old volume group is still on the disk")
	}
	f.free(id, formVolumes, "wipe, done")
	if !f.emptyDisk(formVolumes) {
		f.t.Error("the disk is not empty")
	}
}

// vlan reaches the controller by a static address in a VLAN, to install and to wipe.
func (f *forms) vlan(id string) {
	f.t.Helper()
	f.started(id, formVLAN)
	f.free(id, formVLAN, "wipe, done")
	if !f.emptyDisk(formVLAN) {
		f.t.Error("the disk is not empty")
	}
	sent := f.trunk.sent()
	tagged, untagged := 0, 0 // starts; an installer that takes too long on a busy machine is started again
	for _, r := range sent {
		tagged += min(r.tagged, 1)
		untagged += min(r.untagged, 1)
	}
	if tagged < 2 || untagged != 1 || tagged+untagged != len(sent) || sent[0].tagged == 0 || sent[len(sent)-1].tagged == 0 {
		f.t.Errorf("frames of installer, system and installer, want those of installers in the VLAN and no others: %+v", sent)
	}
}

// secureBoot has a host refuse the installer that nobody signed, for that reason; with one that is
// signed by a key that the firmware knows the same machine is installed.
func (f *forms) secureBoot(id string) {
	f.t.Helper()
	f.shows(15*time.Minute, "given up after 3 boots", "show-host", "secure")
	if shown := f.slipway("show-host", "secure"); !strings.Contains(shown, "Secure Boot is on: is the installer signed") {
		f.t.Errorf("the reason does not tell of Secure Boot:\n%s", shown)
	}
	if console := f.console(formSecure); !strings.Contains(console, "Access Denied") || strings.Contains(console, "VOLUME") || !f.emptyDisk(formSecure) {
		f.t.Errorf("the firmware started a program that nobody signed:\n%s", tail(console, 4000))
	}
	for _, p := range f.programs {
		if p == f.site || p == f.agent {
			p.end()
		}
	}
	f.lab.installer.EFI = f.signed
	f.serve(f.lab)
	f.until(2*time.Minute, "the host is tried again", func() bool {
		_, err := f.try("host", "retry", "secure")
		return err == nil
	})
	f.started(id, formSecure, "disk to install on: /dev/vda")
	f.free(id, formSecure, "wipe, done")
	if !f.emptyDisk(formSecure) {
		f.t.Error("the disk is not empty")
	}
}
