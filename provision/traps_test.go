package provision_test

// Each test here is named after something that installers of this kind have got
// wrong, and holds how this one does it.

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/testlog"
	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk/disktest"
	"github.com/slipway-project/slipway/provision/image"
)

// order fails the test unless the lines stand in the log in this order.
func order(t *testing.T, log string, lines ...string) {
	t.Helper()
	rest := log
	for _, l := range lines {
		_, after, ok := strings.Cut(rest, l)
		if !ok {
			t.Fatalf("%q is missing, or not in order, in:\n%s", l, log)
		}
		rest = after
	}
}

func TestTrapConfigurationRunsAfterTheRootIsMounted(t *testing.T) {
	r := newRig(t, everything)
	tree(t, r.root, map[string]string{"usr/sbin/update-grub": ""})
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := r.log()
	for _, step := range []string{"copy-provisioner-files", "set-hostname", "configure-dns", "configure-kubelet", "configure-grub", "inject-cloudinit", "setup-mellanox"} {
		order(t, log, "mount -t ext4 /dev/sda2 /newroot\n", "-- "+step, "umount /newroot\n")
	}
}

func TestTrapTheESPIsMountedBeforeItsLoaderIsLookedFor(t *testing.T) {
	r := newRig(t, nil)
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	order(t, r.log(), "mount -t vfat /dev/sda1 /newroot/boot/efi\n", "-- create-efi-boot-entry: done", "umount /newroot/boot/efi\n")
}

func TestTrapABootPartitionOfItsOwnIsMounted(t *testing.T) {
	r := newRig(t, nil)
	tree(t, r.root, map[string]string{"etc/fstab": "# comment\nPARTLABEL=efi /boot/efi vfat defaults 0 2\nUUID=1234-5678 /boot vfat defaults 0 2\nUUID=feed /srv xfs defaults 0 2\n"})
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	order(t, r.log(), "mount -t vfat /dev/sda1 /newroot/boot\n", "mount -t vfat /dev/sda1 /newroot/boot/efi\n", "umount /newroot/boot/efi\n", "umount /newroot/boot\n")
}

func TestTrapProvisionWipesTheChosenDiskOnly(t *testing.T) {
	r := newRig(t, nil)
	r.m.AddDisk("sdb", 4*gib, map[string]string{"serial": "DATA"})
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := r.log(); strings.Contains(log, "sdb") {
		t.Errorf("another disk was touched:\n%s", log)
	}
}

func TestTrapADiskToKeepIsNotInstalledOn(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.KeepDisks = []string{"DISK1"} })
	if err := r.Provision(t.Context()); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "keep-disks") {
		t.Errorf("Provision = %v, want NotSupported", err)
	}
	if log := r.log(); strings.Contains(log, "to write") {
		t.Errorf("it was opened:\n%s", log)
	}
}

func TestTrapAMountedDiskIsNotWiped(t *testing.T) {
	r := newRig(t, nil)
	r.m.Do("mount -t efivarfs", func() { r.m.Write("proc/mounts", "/dev/sda1 /mnt ext4 rw 0 0\n") })
	if err := r.Provision(t.Context()); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "in use at /mnt") {
		t.Errorf("Provision = %v, want NotSupported naming the mount point", err)
	}
}

func TestTrapAnImageThatCannotBeHadCostsNoDisk(t *testing.T) {
	for name, edit := range map[string]func(*images){
		"not there": func(i *images) { i.check = errors.NewNotValid(nil, "404") },
		"too large": func(i *images) { i.size = 3 * gib },
	} {
		r := newRig(t, nil)
		edit(r.images)
		if err := r.Provision(t.Context()); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: Provision = %v, want NotValid", name, err)
		}
		if log := r.log(); strings.Contains(log, "to write") {
			t.Errorf("%s: the disk was opened:\n%s", name, log)
		}
	}
}

func TestTrapFirmwareBelowTheMinimumAborts(t *testing.T) {
	for _, tc := range []struct {
		bios, least string
		ok          bool
	}{{"2.10.0", "2.9.1", true}, {"2.9.0", "2.9.1", false}, {"", "1", false}, {"U32 v2.62", "U32 v2.62", true}} {
		r := newRig(t, func(c *config.MachineConfig) { c.Firmware = config.Firmware{Report: true, MinBIOS: tc.least} })
		r.m.Write("sys/class/dmi/id/bios_version", tc.bios+"\n")
		err := r.Provision(t.Context())
		if (err == nil) != tc.ok || len(r.provider.reports) != 1 {
			t.Errorf("BIOS %q, at least %q: %v, %d reports", tc.bios, tc.least, err, len(r.provider.reports))
		}
	}
}

func TestTrapNoLVMProgramIsNeededWithoutLVM(t *testing.T) {
	r := newRig(t, nil)
	r.m.Answer("lvm", "", errors.NotFoundf("program lvm"))
	if err := r.Provision(t.Context()); err != nil {
		t.Errorf("Provision = %v", err)
	}
}

// The kernel reads no partition table of a disk on which volumes are active, as they are when a
// run goes on after it enabled them.
func TestTrapARunThatGoesOnDeactivatesVolumesBeforeItReadsTheTable(t *testing.T) {
	r := newRig(t, nil)
	r.opts.Checkpoint = filepath.Join(r.m.Dir, "checkpoint.json")
	r.fresh()
	volume := r.m.Backing("vg0/root", 64<<20)
	super := make([]byte, 1024)
	super[56], super[57], super[96] = 0x53, 0xEF, 0x40
	writeAt(t, volume, 1024, string(super))
	r.images.write = func(_ context.Context, target image.Target) error {
		if err := writeSystem(target.Device); err != nil {
			return err
		}
		_, err := target.Device.WriteAt(append([]byte("LABELONE"), make([]byte, 2048)...), 17<<20+512) // a physical volume in place of the root
		return err
	}
	r.m.Answer("lvm lvs", "  /dev/vg0/root root 67108864\n", nil)
	r.m.Answer("mount --bind /dev", "", disktest.Fail("mount", 1, "once"))
	if err := r.Provision(t.Context()); err == nil {
		t.Fatal("Provision succeeded")
	}
	r.m.Log()
	r.m.Answer("mount --bind /dev", "", nil)
	r.fresh()
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := r.log()
	off, read, on := strings.Index(log, "lvm vgchange -an\n"), strings.Index(log, "reread /dev/sda\n"), strings.Index(log, "lvm vgchange -ay\n")
	if off < 0 || read < off || on < read {
		t.Errorf("volumes off at %d, table read at %d, volumes on at %d of:\n%s", off, read, on, log)
	}
}

func TestTrapNothingOfTheNetworkOrTheDiskHappensInADryRun(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Mode = config.ModeDryRun })
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := r.log(); strings.Contains(log, "check image") {
		t.Errorf("a dry run asked for the image:\n%s", log)
	}
}

func TestTrapARetryInTheSameProcessBeginsWithNothingMounted(t *testing.T) {
	r := newRig(t, nil)
	tries := 0
	r.images.write = func(_ context.Context, target image.Target) error {
		if tries++; tries == 1 {
			return errors.NewNotValid(nil, "cut")
		}
		return writeSystem(target.Device)
	}
	if err := r.Provision(t.Context()); err == nil {
		t.Fatal("Provision succeeded")
	}
	first := r.log()
	order(t, first, "mount -t efivarfs", "umount /sys/firmware/efi/efivars\n", "-- error")
	r.m.Write("proc/mounts", "") // as unmounting leaves it
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second := r.log(); strings.Count(second, "mount -t ext4 /dev/sda2 /newroot\n") != 1 || !strings.Contains(second, "umount /newroot\n") {
		t.Errorf("second run:\n%s", second)
	}
}

func TestTrapWhatCannotBeUnmountedIsNotForgotten(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Commands = []string{"false"} })
	r.m.Answer("chroot", "", errors.New("command fails"))
	r.m.Answer("umount /newroot", "", errors.New("busy"))
	synctest.Test(t, func(t *testing.T) { // three tries, a second apart
		if err := r.Provision(t.Context()); err == nil {
			t.Fatal("Provision succeeded")
		}
	})
	if s := r.provider.last(); !strings.Contains(string(s.Facts), `"mounts":["`) {
		t.Errorf("the facts do not tell what is still mounted: %s", s.Facts)
	}
}

func TestTrapSecureEraseDoesNotQuietlyDoLess(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Secure = true })
	r.m.Answer("hdparm -I", "ATA device\n", nil)
	if err := r.Provision(t.Context()); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "DISK1") {
		t.Errorf("Provision = %v, want NotSupported naming the serial", err)
	}
	if log := r.log(); strings.Contains(log, "to write") {
		t.Errorf("the disk was touched:\n%s", log)
	}
}

func TestTrapPCIDetectionCanBeReplacedAndRestored(t *testing.T) {
	c, m, _ := system(t, map[string]string{"bin/bash": ""})
	m.Write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n")
	m.Write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000\n")
	var asked string
	restore := provision.SetPCIVendorCheckFunc(func(vendor string) (bool, error) {
		asked = vendor
		return false, errors.New("no sysfs")
	})
	changed, err := c.SetupMellanox(t.Context(), 4)
	restore()
	if changed || err != nil || asked != "0x15b3" || len(m.Log()) != 0 {
		t.Errorf("with an error of detection: %v, %v, asked for %q", changed, err, asked)
	}
	if _, err := c.SetupMellanox(t.Context(), 4); err != nil || len(m.Log()) == 0 {
		t.Errorf("after restore: %v, no adapter was looked at", err)
	}
}

func TestTrapNoVirtualFunctionsAreSetUnasked(t *testing.T) {
	r := newRig(t, nil)
	r.m.Write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n")
	r.m.Write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000\n")
	if err := r.Provision(t.Context()); err != nil || r.FirmwareChanged() {
		t.Errorf("Provision = %v, FirmwareChanged %v", err, r.FirmwareChanged())
	}
	if log := r.log(); strings.Contains(log, "mstconfig") {
		t.Errorf("an adapter was touched:\n%s", log)
	}
}

func TestTrapTheDumpShowsNoSecrets(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Commands = []string{"x"} })
	r.m.Answer("cat /proc/cmdline", "quiet slipway.token=hunter2\n", nil)
	r.m.Answer("chroot", "", errors.New("fails"))
	logs := testlog.Capture(t)
	if err := r.Provision(t.Context()); err == nil {
		t.Fatal("Provision succeeded")
	}
	if text := logs.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "slipway.token=[redacted]") {
		t.Errorf("log:\n%s", text)
	}
}

func TestCompareVersions(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"2.10", "2.9", 1}, {"1.0", "1.0.0", -1}, {"1.2.3", "1.2.3", 0}, {"U32 v2", "U32 v3", -1}, {"", "1", -1}} {
		got := provision.CompareVersions(tc.a, tc.b)
		if got < 0 != (tc.want < 0) || got > 0 != (tc.want > 0) {
			t.Errorf("CompareVersions(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestInventory(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Inventory = true })
	r.m.Write("sys/class/dmi/id/sys_vendor", "Maker\n")
	r.m.Write("sys/class/net/eth0/address", "52:54:00:00:00:01\n")
	r.m.Write("sys/class/net/eth0/speed", "-1\n")
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"vendor":"Maker"`, `"serial":"DISK1"`, `"mac":"52:54:00:00:00:01","link":true`, `"efi":true`, `"memory-mib":4150`} {
		if len(r.provider.reports) != 1 || !strings.Contains(r.provider.reports[0], want) {
			t.Errorf("inventory lacks %s: %s", want, r.provider.reports)
		}
	}
}
