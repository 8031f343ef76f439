//go:build e2e

package bmcqemu_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

// command runs a command in dir.
func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// loader builds a boot loader that says a word on the console, then runs end.
func loader(t *testing.T, dir, name, word, end string) string {
	t.Helper()
	config := fmt.Sprintf("echo %s\n%s\n", word, end) // the firmware puts its console on the serial line
	if err := os.WriteFile(filepath.Join(dir, name+".cfg"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "grub-mkstandalone", "-O", "x86_64-efi", "-o", name+".efi", "--modules=echo halt reboot sleep",
		"--fonts=", "--themes=", "--locales=", "boot/grub/grub.cfg="+name+".cfg")
	return filepath.Join(dir, name+".efi")
}

// image builds a FAT file system that UEFI firmware boots the loader from.
func image(t *testing.T, dir, name, loader string) string {
	t.Helper()
	command(t, dir, "mkfs.vfat", "-C", name, "32768")
	command(t, dir, "mmd", "-i", name, "::/EFI", "::/EFI/BOOT")
	command(t, dir, "mcopy", "-i", name, loader, "::/EFI/BOOT/BOOTX64.EFI")
	return filepath.Join(dir, name)
}

// installer is an Installer whose machines write nothing: what would be written is
// on the disk already. It believes the machine done when the console says so.
type installer struct {
	url  string
	job  redfish.JobStatus
	done func() bool
}

func (i *installer) Start(_ context.Context, job redfish.Job) (redfish.JobStatus, error) {
	i.job = redfish.JobStatus{Purpose: job.Purpose, Image: job.Image.URL, Phase: redfish.PhaseWaiting, ISO: i.url + "/installer.iso", HTTPBoot: i.url + "/installer.efi", Started: time.Now()}
	return i.job, nil
}
func (i *installer) Status(context.Context, string) (redfish.JobStatus, error) {
	if i.job.Started.IsZero() {
		return i.job, errors.NotFoundf("job")
	}
	if i.done() {
		i.job.Phase = redfish.PhaseDone
	}
	return i.job, nil
}
func (i *installer) Mark(_ context.Context, _ string, m redfish.Mark) error {
	switch m {
	case redfish.MarkPrepared:
		i.job.Prepared = time.Now()
	case redfish.MarkBooted:
		i.job.Booted = time.Now()
	case redfish.MarkEjected:
		i.job.Ejected = time.Now()
	case redfish.MarkRestarted:
		i.job.Restarted = time.Now()
	}
	return nil
}
func (i *installer) Renew(context.Context, string, int, string) error {
	return errors.NotSupportedf("another boot")
}
func (i *installer) Cancel(context.Context, string) error { i.job = redfish.JobStatus{}; return nil }

// data is a HostConfigData without data.
type data struct{}

func (data) UserData() (string, error)    { return "", nil }
func (data) NetworkData() (string, error) { return "", nil }

// virtual is a BMC with one virtual machine and the record of its host.
type virtual struct {
	t       *testing.T
	qemu    *fakebmc.QEMU
	bmc     *fakebmc.BMC
	backend *redfish.Backend
	host    *metal3v1alpha1.BareMetalHost
}

func newVirtual(t *testing.T, scheme string, i *installer) *virtual {
	t.Helper()
	q, err := fakebmc.NewQEMU(fakebmc.QEMUOptions{Dir: t.TempDir(), DiskBytes: 64 << 20, MemoryMiB: 512})
	if err != nil {
		t.Fatal(err)
	}
	b, err := fakebmc.New(fakebmc.Config{Machine: func(int) fakebmc.Machine { return q }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b)
	v := &virtual{t: t, qemu: q, bmc: b, host: new(metal3v1alpha1.BareMetalHost),
		backend: redfish.New(redfish.Options{Installer: i, Poll: 200 * time.Millisecond})}
	t.Cleanup(func() {
		v.backend.Close(context.Background())
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if t.Failed() {
			t.Logf("console:\n%s", v.console())
		}
	})
	v.host.Metadata.Name = "virtual"
	v.host.Spec.BMC.Address = scheme + strings.TrimPrefix(server.URL, "http")
	v.host.Spec.Image = &metal3v1alpha1.Image{URL: "http://images.test/image"}
	return v
}

// console returns what the machine said, without the firmware's escapes.
func (v *virtual) console() string {
	text, _ := os.ReadFile(v.qemu.Console())
	return string(text)
}

// done calls until the operation is over, which must succeed.
func (v *virtual) done(what string, f func(provisioner.Provisioner) (provisioner.Result, error)) {
	v.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 10*time.Minute {
		p, err := v.backend.Factory(context.Background())(v.host, bmc.Credentials{Username: "u", Password: "p"}, func(string, string) {})
		if err != nil {
			v.t.Fatal(err)
		}
		r, err := f(p)
		if err != nil || r.ErrorMessage != "" {
			v.t.Fatalf("%s: %+v, %v", what, r, err)
		}
		if !r.Dirty {
			v.t.Logf("%s after %v", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		<-time.After(max(r.RequeueAfter, 50*time.Millisecond))
	}
	v.t.Fatalf("%s: no end", what)
}

// until waits for something to become true.
func (v *virtual) until(what string, ok func() bool) {
	v.t.Helper()
	for begin := time.Now(); !ok(); <-time.After(200 * time.Millisecond) {
		if time.Since(begin) > 10*time.Minute {
			v.t.Fatalf("%s: not within ten minutes", what)
		}
	}
}

// install goes through a whole installation: the installer boots once, restarts the
// machine, and what is on the disk runs.
func install(t *testing.T, scheme string, source fakebmc.BootSource) {
	dir := t.TempDir()
	www := t.TempDir()
	command(t, dir, "mkdir", "iso")
	efi := loader(t, dir, "installer", "INSTALLER-RUNS", "sleep 600")
	boot := image(t, dir, "efi.img", efi)
	command(t, dir, "cp", boot, "iso/efi.img")
	command(t, dir, "xorriso", "-as", "mkisofs", "-quiet", "-o", filepath.Join(www, "installer.iso"), "-e", "efi.img", "-no-emul-boot", "iso")
	command(t, dir, "cp", efi, www)
	files := httptest.NewServer(http.FileServer(http.Dir(www)))
	defer files.Close()
	i := &installer{url: files.URL}
	v := newVirtual(t, scheme, i)
	i.done = func() bool { return strings.Contains(v.console(), "INSTALLER-RUNS") }
	disk := image(t, dir, "disk.fat", loader(t, dir, "disk", "DISK-RUNS", "sleep 3\nhalt"))
	command(t, dir, "dd", "if="+disk, "of="+v.qemu.Disk(), "conv=notrunc", "status=none")

	v.done("register", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.ValidateManagementAccess(true) })
	v.done("provision", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data{}) })
	v.until("the image runs", func() bool { return strings.Contains(v.console(), "DISK-RUNS") })
	if n := strings.Count(v.console(), "INSTALLER-RUNS"); n != 1 {
		t.Errorf("the installer ran %d times, want once", n)
	}
	v.until("the machine goes off by itself", func() bool { return !v.bmc.System(0).PoweredOn() })
	boots := v.bmc.System(0).Boots()
	if len(boots) != 2 || boots[0].Source != source || v.bmc.System(0).Media() != "" {
		t.Errorf("boots %+v, medium %q", boots, v.bmc.System(0).Media())
	}
	v.done("power on", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOn() })
	v.until("the image runs again", func() bool { return strings.Count(v.console(), "DISK-RUNS") == 2 })
}

func TestInstallFromVirtualCD(t *testing.T) { install(t, "redfish-virtualmedia+http", fakebmc.BootCd) }
func TestInstallByHTTP(t *testing.T)        { install(t, "redfish-uefihttp+http", fakebmc.BootHTTP) }

func TestAMachineThatRestartsItselfStaysOn(t *testing.T) {
	dir := t.TempDir()
	v := newVirtual(t, "redfish+http", &installer{done: func() bool { return false }})
	disk := image(t, dir, "disk.fat", loader(t, dir, "disk", "DISK-RUNS", "reboot"))
	command(t, dir, "dd", "if="+disk, "of="+v.qemu.Disk(), "conv=notrunc", "status=none")
	if err := v.bmc.System(0).Reset("On"); err != nil {
		t.Fatal(err)
	}
	v.until("the image has run twice", func() bool { return strings.Count(v.console(), "DISK-RUNS") >= 2 })
	if err := v.bmc.System(0).Reset("ForceOff"); err != nil {
		t.Fatal(err)
	}
	if v.bmc.System(0).PoweredOn() {
		t.Error("still on after ForceOff")
	}
}
