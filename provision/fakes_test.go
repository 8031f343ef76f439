package provision_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/disk/disktest"
	"github.com/slipway-project/slipway/provision/health"
	"github.com/slipway-project/slipway/provision/image"
)

const gib = 1 << 30

// zero makes GUIDs that are the same each time.
type zero struct{}

func (zero) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x11
	}
	return len(p), nil
}

// provider records what is reported, also in the machine's log.
type provider struct {
	m        *disktest.Machine
	mu       sync.Mutex
	statuses []config.Status
	health   []health.CheckResult
	reports  []string // inventory and firmware
	err      func(config.Status) error
}

func (p *provider) ReportStatus(_ context.Context, s config.Status) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses = append(p.statuses, s)
	if s.State == config.StateStep {
		p.m.Note(strings.TrimSpace(fmt.Sprintf("-- %s: %s %s", s.Step, s.Result, s.Message)))
	} else {
		p.m.Note(fmt.Sprintf("-- %s", s.State))
	}
	if p.err != nil {
		return p.err(s)
	}
	return nil
}

func (p *provider) ReportInventory(_ context.Context, b []byte) error {
	p.reports = append(p.reports, string(b))
	return nil
}

func (p *provider) ReportFirmware(_ context.Context, b []byte) error {
	p.reports = append(p.reports, string(b))
	return nil
}

func (p *provider) Heartbeat(context.Context) error         { return nil }
func (p *provider) ShipLog(context.Context, []string) error { return nil }
func (p *provider) ReportHealthChecks(_ context.Context, r []health.CheckResult) error {
	p.health = r
	return nil
}

// last returns the last status.
func (p *provider) last() config.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statuses[len(p.statuses)-1]
}

// images writes a small bootable-looking disk.
type images struct {
	m     *disktest.Machine
	size  int64
	check error
	write func(ctx context.Context, target image.Target) error
}

func (i *images) Check(_ context.Context, order config.Image) (string, int64, error) {
	i.m.Note("check image")
	return order.URLs[0], i.size, i.check
}

func (i *images) Write(ctx context.Context, _ config.Image, target image.Target) (image.Result, error) {
	i.m.Note("write image")
	if i.write != nil {
		if err := i.write(ctx, target); err != nil {
			return image.Result{}, err
		}
		return image.Result{Bytes: 1}, nil
	}
	return image.Result{Bytes: 64 << 20, Checksum: "sha256:00", Format: "raw"}, writeSystem(target.Device)
}

// writeSystem writes a GPT for a 64 MiB disk with an EFI system partition and a root.
func writeSystem(d disk.Device) error {
	t, err := disk.NewTable([]config.Partition{
		{Label: "efi", SizeMiB: 16, FileSystem: "vfat", MountPoint: "/boot/efi"},
		{Label: "root", SizeMiB: 32, FileSystem: "ext4", MountPoint: "/"},
	}, 64<<20, 512, zero{})
	if err != nil {
		return err
	}
	if err := t.Write(d, 64<<20); err != nil {
		return err
	}
	super := make([]byte, 1024)
	super[56], super[57] = 0x53, 0xEF
	super[96] = 0x40 // extents
	copy(super[104:], "0123456789abcdef")
	copy(super[120:], "rootfs")
	if _, err := d.WriteAt(super, 17<<20+1024); err != nil {
		return err
	}
	fat := make([]byte, 512)
	copy(fat[54:], "FAT16   ")
	copy(fat[39:], "\x78\x56\x34\x12ESP        ")
	fat[510], fat[511] = 0x55, 0xAA
	_, err = d.WriteAt(fat, 1<<20)
	return err
}

// rig is an orchestrator on a made machine.
type rig struct {
	*provision.Orchestrator
	m        *disktest.Machine
	cfg      *config.MachineConfig
	provider *provider
	images   *images
	root     string
	opts     provision.Options
}

const sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// newRig returns a rig with one disk of 2 GiB, EFI, and a small system in the root folder.
func newRig(t *testing.T, edit func(*config.MachineConfig)) *rig {
	t.Helper()
	m := disktest.New(t)
	m.AddDisk("sda", 2*gib, map[string]string{"serial": "DISK1", "device/model": "Model"})
	m.Write("proc/meminfo", "MemTotal: 4000000 kB\n")
	m.Write("proc/cpuinfo", "processor\t: 0\n")
	m.Write("sys/class/net/eth0/device/x", "")
	m.Write("sys/class/net/eth0/carrier", "1")
	m.Write("newroot/boot/efi/EFI/vendor/shimx64.efi", "")
	m.Write("newroot/etc/os-release", "ID=vendor\n")
	m.Write("sys/firmware/efi/efivars/.keep", "")
	m.Do("mount -t efivarfs", func() {
		m.Write("proc/mounts", "efivarfs "+m.Dir+"/sys/firmware/efi/efivars efivarfs rw 0 0\n")
	})
	cfg := &config.MachineConfig{Host: "h7", Hostname: "node-7", Image: config.Image{URLs: []string{"https://images/x.raw"}, Checksum: sum}}
	if edit != nil {
		edit(cfg)
	}
	r := &rig{m: m, cfg: cfg, provider: &provider{m: m}, images: &images{m: m}, root: filepath.Join(m.Dir, "newroot")}
	r.opts = provision.Options{Root: r.root, Deploy: filepath.Join(m.Dir, "deploy"), Images: r.images, Arch: "amd64", Random: zero{}}
	r.fresh()
	return r
}

// fresh makes the orchestrator anew, as after a start of the installer.
func (r *rig) fresh() {
	mgr := r.m.Manager()
	r.Orchestrator = provision.NewOrchestrator(r.cfg, r.provider, mgr)
	r.SetOptions(r.opts)
}

// log returns the machine's log as text.
func (r *rig) log() string { return strings.Join(r.m.Log(), "\n") + "\n" }

// tree makes files below dir and returns it.
func tree(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// show prints every file below dir that is not as in files.
func show(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if e.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			if err == nil && files[name] != "-> "+target {
				out = append(out, fmt.Sprintf("== %s -> %s\n", name, target))
			}
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if old, ok := files[name]; ok && old == string(b) {
			return nil
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		out = append(out, fmt.Sprintf("== %s %v\n%s", name, st.Mode(), b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// newConfigurator returns a Configurator of the rig's system.
func newConfigurator(r *rig) *provision.Configurator {
	c := provision.NewConfigurator(r.m.Manager())
	c.SetRootDir(r.root)
	return c
}
