package disk

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"
)

// Config holds everything through which a Manager reaches the machine. All
// fields are required.
type Config struct {
	SysRoot   string // where sysfs is mounted
	ProcRoot  string // where procfs is mounted
	DevRoot   string // where the device nodes are
	Commander Commander
	Devices   Devices
}

// HostConfig reaches the machine it runs on. Only an installer may use it: it is
// what makes a wipe real.
func HostConfig() Config {
	return Config{SysRoot: "/sys", ProcRoot: "/proc", DevRoot: "/dev", Commander: ExecCommander{}, Devices: HostDevices{}}
}

// Manager does what is to be done to disks. Its methods may be called by one
// goroutine at a time.
type Manager struct {
	sys, proc, dev string
	cmd            Commander
	devices        Devices
}

// NewManager returns a manager. The error satisfies errors.NotValid if anything
// is missing from c.
func NewManager(c Config) (*Manager, error) {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"SysRoot", c.SysRoot == ""}, {"ProcRoot", c.ProcRoot == ""}, {"DevRoot", c.DevRoot == ""},
		{"Commander", c.Commander == nil}, {"Devices", c.Devices == nil},
	} {
		if f.missing {
			return nil, errors.NotValidf("disk manager without %s", f.name)
		}
	}
	return &Manager{sys: c.SysRoot, proc: c.ProcRoot, dev: c.DevRoot, cmd: c.Commander, devices: c.Devices}, nil
}

// SysRoot returns where sysfs is.
func (m *Manager) SysRoot() string { return m.sys }

// ProcRoot returns where procfs is.
func (m *Manager) ProcRoot() string { return m.proc }

// Commander returns what runs the manager's programs.
func (m *Manager) Commander() Commander { return m.cmd }

// Open opens the block device at path.
func (m *Manager) Open(path string, write bool) (Device, error) {
	return m.devices.Open(path, write)
}

// run runs a program whose output does not matter.
func (m *Manager) run(ctx context.Context, name string, args ...string) error {
	_, err := m.cmd.Run(ctx, name, args...)
	return err
}

// mount is one line of /proc/mounts.
type mount struct{ source, dir, fs string }

// mounts returns what is mounted, oldest first.
func (m *Manager) mounts() ([]mount, error) {
	f, err := os.Open(filepath.Join(m.proc, "mounts"))
	if err != nil {
		return nil, errors.Annotate(err, "cannot read mounts")
	}
	defer func() { _ = f.Close() }()
	var out []mount
	for s := bufio.NewScanner(f); s.Scan(); {
		if w := strings.Fields(s.Text()); len(w) >= 3 {
			out = append(out, mount{unescape(w[0]), unescape(w[1]), w[2]})
		}
	}
	return out, nil
}

// unescape undoes the octal escapes of /proc/mounts.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// IsMountPoint reports whether something is mounted on dir.
func (m *Manager) IsMountPoint(dir string) (bool, error) {
	all, err := m.mounts()
	for _, mt := range all {
		if mt.dir == filepath.Clean(dir) {
			return true, err
		}
	}
	return false, err
}

// Mount mounts source on dir, which it makes if need be. options is what
// follows -o, "" for none; fs "bind" makes a bind mount.
func (m *Manager) Mount(ctx context.Context, source, dir, fs, options string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return errors.Annotatef(err, "cannot make mount point")
	}
	var args []string
	if fs == "bind" {
		args = append(args, "--bind")
	} else {
		args = append(args, "-t", fs)
	}
	if options != "" {
		args = append(args, "-o", options)
	}
	return errors.Annotatef(m.run(ctx, "mount", append(args, source, dir)...), "cannot mount %s on %s", source, dir)
}

// Unmount unmounts dir. It tries three times, a second apart, because daemons
// that a command left behind need a moment to end.
func (m *Manager) Unmount(ctx context.Context, dir string) error {
	var err error
	for try := range 3 {
		if try > 0 {
			select {
			case <-ctx.Done():
				return errors.Trace(ctx.Err())
			case <-time.After(time.Second):
			}
		}
		if err = m.run(ctx, "umount", dir); err == nil {
			return nil
		}
	}
	return errors.Annotatef(err, "cannot unmount %s", dir)
}

// ChrootRun runs a command line by a shell inside root: bash, or sh where there
// is no bash.
func (m *Manager) ChrootRun(ctx context.Context, root, command string) ([]byte, error) {
	shell := "/bin/bash"
	if _, err := os.Lstat(filepath.Join(root, shell)); err != nil {
		if _, err := os.Lstat(filepath.Join(root, "usr", shell)); err != nil {
			shell = "/bin/sh"
		}
	}
	return m.cmd.Run(ctx, "chroot", root, shell, "-c", command)
}

// waitNode returns when the device node path exists, or after ten seconds with an
// error satisfying errors.NotFound.
func (m *Manager) waitNode(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if _, err := os.Stat(m.node(path)); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.NotFoundf("device node %s", path)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// node returns where the device node of a path below /dev is.
func (m *Manager) node(path string) string {
	return filepath.Join(m.dev, strings.TrimPrefix(path, "/dev/"))
}
