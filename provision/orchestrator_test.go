package provision_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk/disktest"
	"github.com/slipway-project/slipway/provision/image"
)

func TestLists(t *testing.T) {
	golden.Check(t, "steps.golden", provision.Lists(newRig(t, nil).Orchestrator))
}

// everything asks for all that can be asked for.
func everything(c *config.MachineConfig) {
	c.Inventory = true
	c.DNS = []string{"192.0.2.53"}
	c.Kernel = config.Kernel{Append: []string{"console=ttyS0"}}
	c.Kubelet = &config.Kubelet{ProviderID: "slipway://h7"}
	c.CloudInit = &config.CloudInit{UserData: "#cloud-config\n"}
	c.Files = []config.File{{Path: "/etc/motd", Content: "hello"}}
	c.Commands = []string{"echo one\necho two"}
	c.PostCmds = []string{"systemctl enable x"}
	c.VirtualFns = 8
	c.Finish = config.FinishKexec
}

func TestProvisionCommands(t *testing.T) {
	r := newRig(t, everything)
	tree(t, r.root, map[string]string{
		"usr/sbin/update-grub": "", "etc/default/grub": "GRUB_CMDLINE_LINUX=\"\"\n", "etc/default/grub.d/x": "",
		"etc/fstab": "LABEL=rootfs / ext4 defaults 0 1\nUUID=1234-5678 /boot/efi vfat umask=0077 0 2\n",
	})
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "provision.golden", r.log())
	if s := r.provider.last(); s.State != config.StateSuccess {
		t.Errorf("last status = %+v, want success", s)
	}
}

func TestProvisionWithLayoutCommands(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		c.Layout = &config.Layout{
			Partitions: []config.Partition{{Label: "efi", SizeMiB: 64, FileSystem: "vfat", MountPoint: "/boot/efi"}, {Label: "pv"}},
			LVM: &config.LVM{VolumeGroup: "vg0", Partition: 2, Volumes: []config.Volume{
				{Name: "swap", SizeMiB: 64, FileSystem: "swap"}, {Name: "root", FileSystem: "ext4", MountPoint: "/"}}},
		}
	})
	r.m.Backing("vg0/root", 256<<20)
	r.m.Answer("lvm lvs", "  /dev/vg0/root root 268435456\n  /dev/vg0/swap swap 67108864\n", nil)
	r.m.Do("lvm pvcreate", func() { writeAt(t, r.m.File("sda"), 65<<20+512, "LABELONE") })
	r.images.write = func(_ context.Context, target image.Target) error {
		super := make([]byte, 1024)
		super[56], super[57], super[96] = 0x53, 0xEF, 0x40
		_, err := target.Device.WriteAt(super, 1024)
		return err
	}
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "layout.golden", r.log()+show(t, r.root, nil))
}

func writeAt(t *testing.T, file string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

func TestDryRunTouchesNothing(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		everything(c)
		c.Mode = config.ModeDryRun
	})
	state := func() string {
		var all string
		for _, dir := range []string{"newroot", "sys", "proc", "dev"} {
			all += show(t, filepath.Join(r.m.Dir, dir), nil)
		}
		return all
	}
	before := state()
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.log(); got != "-- success\n" {
		t.Errorf("a dry run did:\n%s", got)
	}
	if after := state(); after != before {
		t.Error("a dry run changed files")
	}
	golden.Check(t, "plan.golden", r.provider.last().Message+"\n")
}

func TestDryRunNamesWhatWouldFail(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		c.Mode = config.ModeDryRun
		c.RootDevice.Serial = "OTHER"
	})
	err := r.Provision(t.Context())
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), `serial is "DISK1", hint "OTHER"`) || r.provider.last().State != config.StateError {
		t.Errorf("Provision = %v, status %v", err, r.provider.last().State)
	}
}

func TestHardDeprovision(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		c.Mode = config.ModeDeprovision
		c.KeepDisks = []string{"KEEP1"}
	})
	r.m.AddDisk("sdb", 4*gib, map[string]string{"serial": "DATA1"})
	r.m.AddDisk("sdc", 4*gib, map[string]string{"serial": "KEEP1"})
	r.m.AddDisk("sdd", 4*gib, map[string]string{"serial": "USB1", "removable": "1"})
	boot := r.m.AddDisk("sde", 4*gib, map[string]string{"serial": "BOOT1"})
	descriptor := "\x01CD001\x01\x00" + strings.Repeat(" ", 32) + "SLIPWAY" + strings.Repeat(" ", 25)
	writeAt(t, boot, 16*2048, descriptor)
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		writeAt(t, r.m.File(name), 510, "\x55\xaa")
	}
	if err := r.Deprovision(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "deprovision-hard.golden", r.log())
	for name, wiped := range map[string]bool{"sda": true, "sdb": true, "sdc": false, "sdd": false} {
		b := make([]byte, 2)
		f, err := os.Open(r.m.File(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(b, 510); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if got := b[0] == 0; got != wiped {
			t.Errorf("%s wiped = %v, want %v", name, got, wiped)
		}
	}
}

func TestHardDeprovisionTouchesNoDiskIfItCannotNameThem(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Mode = config.ModeDeprovision })
	r.provider.err = func(s config.Status) error {
		if s.Result == "running" {
			return errors.New("no answer")
		}
		return nil
	}
	if err := r.Deprovision(t.Context()); err == nil {
		t.Error("Deprovision succeeded")
	}
	if log := r.log(); strings.Contains(log, "open /dev/sda to write") {
		t.Errorf("a disk was opened:\n%s", log)
	}
}

func TestSoftDeprovisionFindsTheRecordedDisk(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		c.Mode = config.ModeSoftDeprovision
		c.Recorded = config.DiskID{Serial: "OLD1", Name: "/dev/sda"} // the name is another disk's by now
	})
	r.m.AddDisk("sdb", 64<<20, map[string]string{"serial": "OLD1"})
	d, err := r.m.Open("/dev/sdb", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeSystem(d); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	r.m.Log()
	tree(t, r.root, map[string]string{"boot/grub2/grub.cfg": "menu", "boot/efi/EFI/vendor/grub.cfg": "stub", "boot/loader/entries/a.conf": "options x"})
	if err := r.Deprovision(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "deprovision-soft.golden", r.log()+show(t, r.root, nil))
}

func TestSoftDeprovisionWithoutALoaderFails(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) {
		c.Mode = config.ModeSoftDeprovision
		c.Recorded = config.DiskID{Serial: "DISK1"}
	})
	d, err := r.m.Open("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeSystem(d); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	if err := r.Deprovision(t.Context()); !errors.Is(err, errors.NotFound) {
		t.Errorf("Deprovision = %v, want NotFound: nothing was disabled", err)
	}
}

func TestAFailedStepUnmountsReportsAndNamesItself(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Commands = []string{"apply --token hunter2"} })
	r.m.Answer("chroot", "", disktest.Fail("chroot", 3, "no such thing"))
	err := r.Provision(t.Context())
	if err == nil || !strings.Contains(err.Error(), "step run-machine-commands") || !strings.Contains(err.Error(), "no such thing") {
		t.Fatalf("Provision = %v", err)
	}
	log := r.log()
	_, after, _ := strings.Cut(log, "-- run-machine-commands: failed")
	for _, want := range []string{"umount /newroot/run\numount /newroot/sys\numount /newroot/proc\numount /newroot/dev\numount /newroot/boot/efi\numount /newroot\n", "cat /proc/mounts\n", "-- error\n"} {
		if !strings.Contains(after, want) {
			t.Errorf("after the failure %q is missing in:\n%s", want, after)
		}
	}
	s := r.provider.last()
	if s.State != config.StateError || s.Step != "run-machine-commands" || strings.Contains(s.Message, "hunter2") {
		t.Errorf("last status = %+v", s)
	}
}

func TestResumeGoesOnAfterTheLastStepThatWasDone(t *testing.T) {
	r := newRig(t, nil)
	r.opts.Checkpoint = filepath.Join(r.m.Dir, "checkpoint.json")
	r.fresh()
	r.m.Answer("mount --bind /dev", "", disktest.Fail("mount", 1, "once"))
	if err := r.Provision(t.Context()); err == nil {
		t.Fatal("Provision succeeded")
	}
	r.m.Log()
	st, err := os.Stat(r.opts.Checkpoint)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("checkpoint: %v, %v, want mode 0600", st, err)
	}
	r.m.Answer("mount --bind /dev", "", nil)
	r.fresh()
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := r.log()
	for _, gone := range []string{"write image", "-- wipe-disk", "-- check-filesystem"} {
		if strings.Contains(log, gone) {
			t.Errorf("the resumed run did %q again", gone)
		}
	}
	for _, again := range []string{"mount -t ext4 /dev/sda2 /newroot\n", "mount -t vfat /dev/sda1 /newroot/boot/efi\n", "mount --bind /dev", "-- detect-disk: done", "-- set-hostname: done"} {
		if !strings.Contains(log, again) {
			t.Errorf("the resumed run did not do %q:\n%s", again, log)
		}
	}
	if _, err := os.Stat(r.opts.Checkpoint); !os.IsNotExist(err) {
		t.Errorf("the checkpoint is still there: %v", err)
	}
}

func TestResumeWithAnotherDiskIsRefused(t *testing.T) {
	r := newRig(t, nil)
	r.opts.Checkpoint = filepath.Join(r.m.Dir, "checkpoint.json")
	r.fresh()
	r.m.Answer("mount", "", disktest.Fail("mount", 1, "no"))
	if err := r.Provision(t.Context()); err == nil {
		t.Fatal("Provision succeeded")
	}
	r.m.Write("sys/block/sda/serial", "SWAPPED")
	r.m.Log()
	r.fresh()
	synctest.Test(t, func(t *testing.T) {
		if err := r.Provision(t.Context()); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), `serial "DISK1"`) {
			t.Errorf("Provision = %v, want the recorded disk not found", err)
		}
	})
}

func TestACheckpointOfAnotherOrderIsNotUsed(t *testing.T) {
	r := newRig(t, nil)
	r.opts.Checkpoint = filepath.Join(r.m.Dir, "checkpoint.json")
	for name, text := range map[string]string{"junk": "{", "other": `{"config":"x","completed":["stream-image"]}`} {
		if err := os.WriteFile(r.opts.Checkpoint, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.fresh()
		r.m.Log()
		if err := r.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.log(), "write image") {
			t.Errorf("%s: the image was not written", name)
		}
	}
}

func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		fails int // tries that fail
		tries int
		ok    bool
	}{
		{"passing fault", errors.New("connection reset"), 2, 3, true},
		{"for ever", errors.New("connection reset"), 99, 4, false},
		{"final", errors.Annotate(provision.ErrFinal, "wrong checksum"), 99, 1, false},
		{"not valid", errors.NotValidf("image"), 99, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			n := 0
			r.images.write = func(_ context.Context, target image.Target) error {
				if n++; n <= tc.fails {
					return tc.err
				}
				return writeSystem(target.Device)
			}
			synctest.Test(t, func(t *testing.T) {
				if err := r.Provision(t.Context()); (err == nil) != tc.ok || n != tc.tries {
					t.Errorf("Provision = %v after %d tries, want ok %v after %d", err, n, tc.ok, tc.tries)
				}
			})
		})
	}
}

func TestAStepBeyondItsTimeSaysSo(t *testing.T) {
	r := newRig(t, nil)
	r.images.write = func(ctx context.Context, _ image.Target) error {
		<-ctx.Done()
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := r.Provision(t.Context())
		if !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "step stream-image after 4h0m0s") {
			t.Errorf("Provision = %v", err)
		}
		if took := time.Since(start); took < 16*time.Hour || took > 17*time.Hour {
			t.Errorf("four tries of 4 hours took %v", took)
		}
	})
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{2: time.Second, 3: 2 * time.Second, 6: 16 * time.Second, 7: 30 * time.Second, 99: 30 * time.Second} {
		if got := provision.Backoff(n, 0); got != want {
			t.Errorf("Backoff(%d, 0) = %v, want %v", n, got, want)
		}
		if got := provision.Backoff(n, 1); got != want+want/5 {
			t.Errorf("Backoff(%d, 1) = %v, want %v", n, got, want+want/5)
		}
	}
}

func TestARefusalStopsTheRunBeforeTheNextStep(t *testing.T) {
	r := newRig(t, nil)
	r.provider.err = func(s config.Status) error {
		if s.Step == "detect-disk" {
			return errors.Annotate(config.ErrRefused, "410")
		}
		return nil
	}
	if err := r.Provision(t.Context()); !errors.Is(err, config.ErrRefused) {
		t.Errorf("Provision = %v, want ErrRefused", err)
	}
	if log := r.log(); strings.Contains(log, "to write") {
		t.Errorf("a disk was opened although the controller had refused:\n%s", log)
	}
}

func TestAFailedHealthCheckEndsTheRun(t *testing.T) {
	r := newRig(t, func(c *config.MachineConfig) { c.Health.MinCPUs = 64 })
	err := r.Provision(t.Context())
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "minimum-cpu (1 processors, 64 asked for)") {
		t.Errorf("Provision = %v", err)
	}
	if len(r.provider.health) == 0 {
		t.Error("the checks were not reported")
	}
}

func TestFactsAreReported(t *testing.T) {
	r := newRig(t, nil)
	if err := r.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	var f provision.Facts
	if err := json.Unmarshal(r.provider.last().Facts, &f); err != nil {
		t.Fatal(err)
	}
	if f.Disk.Serial != "DISK1" || f.Root != "/dev/sda2" || f.ESP != "/dev/sda1" || f.Checksum != "sha256:00" || len(f.Mounts) != 0 {
		t.Errorf("facts = %+v", f)
	}
}
