package provision

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
)

// Configurator handles post-image OS configuration. It tells systems apart by what
// they have (a folder, a program), not by their names, and every method may be repeated.
type Configurator struct {
	disk   *disk.Manager
	root   string // of the installed system
	deploy string // what was brought along
	label  string // of our boot entry
	arch   string
}

// NewConfigurator creates a Configurator of the system mounted at /newroot, with
// files brought along below /deploy.
func NewConfigurator(diskMgr *disk.Manager) *Configurator {
	return &Configurator{disk: diskMgr, root: "/newroot", deploy: "/deploy", label: "slipway", arch: runtime.GOARCH}
}

// SetRootDir overrides the root directory (for testing).
func (c *Configurator) SetRootDir(dir string) { c.root = dir }

// SetDeployDir overrides where the files brought along are.
func (c *Configurator) SetDeployDir(dir string) { c.deploy = dir }

// SetEFILabel overrides the label of the boot entry, "slipway".
func (c *Configurator) SetEFILabel(label string) { c.label = label }

// maxFile bounds what is read of a file of the installed system.
const maxFile = 1 << 20

// read returns the text of a file of the installed system. Links are followed
// inside the system only. The error satisfies errors.NotFound if there is none.
func (c *Configurator) read(name string) (string, error) {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return "", errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = root.Close() }()
	st, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.NotFoundf("%s of the installed system", name)
	} else if err != nil {
		return "", errors.Annotatef(err, "cannot read %s of the installed system", name)
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return "", errors.NotValidf("%s of the installed system, no file of at most 1 MiB,", name)
	}
	b, err := root.ReadFile(name)
	return string(b), errors.Annotatef(err, "cannot read %s of the installed system", name)
}

// exists reports whether the installed system has name; a link counts wherever
// it leads.
func (c *Configurator) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(c.root, path.Dir(name)))
	if err != nil {
		return false
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	_, err = root.Lstat(name)
	return err == nil
}

// write makes a file of the installed system with the given permission, whole or not at
// all, in place of what was there, be it a link. Missing folders are made.
func (c *Configurator) write(name, text string, mode os.FileMode) error {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = root.Close() }()
	return errors.Annotatef(replace(root, name, text, mode), "cannot write %s of the installed system", name)
}

// replace writes name below root by way of a temporary file.
func replace(root *os.Root, name, text string, mode os.FileMode) error {
	dir := path.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := path.Join(dir, ".slipway-"+path.Base(name))
	_ = root.Remove(tmp)
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm()&0o700)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		_ = root.Remove(tmp)
	}
	return err
}

// remove deletes a file of the installed system, if it is there.
func (c *Configurator) remove(name string) error {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = root.Close() }()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Annotatef(err, "cannot remove %s of the installed system", name)
	}
	return nil
}

// has returns the first of the programs that the installed system has, as a path.
func (c *Configurator) has(programs ...string) string {
	for _, p := range programs {
		for _, dir := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
			if c.exists(path.Join(dir, p)) {
				return "/" + path.Join(dir, p)
			}
		}
	}
	return ""
}

// osRelease returns a value of the system's os-release, "" if it has none.
func (c *Configurator) osRelease(key string) string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		b, err := c.read(name)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(b, "\n") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
				return strings.Trim(v, `"'`)
			}
		}
	}
	return ""
}

// SetHostname writes the hostname to /etc/hostname, and to the line for 127.0.1.1
// in /etc/hosts where there is one. An empty hostname leaves the image's own.
func (c *Configurator) SetHostname(cfg *config.MachineConfig) error {
	if cfg.Hostname == "" {
		return nil
	}
	if err := c.write("etc/hostname", cfg.Hostname+"\n", 0o644); err != nil {
		return err
	}
	hosts, err := c.read("etc/hosts")
	if err != nil {
		return nil //nolint:nilerr // a system without one resolves its name otherwise
	}
	lines := strings.Split(hosts, "\n")
	changed := false
	for i, l := range lines {
		if w := strings.Fields(l); len(w) > 1 && w[0] == "127.0.1.1" {
			short, _, qualified := strings.Cut(cfg.Hostname, ".")
			lines[i] = "127.0.1.1\t" + cfg.Hostname
			if qualified {
				lines[i] += " " + short
			}
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return c.write("etc/hosts", strings.Join(lines, "\n"), 0o644)
}

// WriteFiles writes files into the installed system.
func (c *Configurator) WriteFiles(files []config.File) error {
	for _, f := range files {
		mode := os.FileMode(f.Mode & 0o777)
		if f.Mode == 0 {
			mode = 0o644
		}
		for bit, m := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
			if f.Mode&bit != 0 {
				mode |= m
			}
		}
		if err := c.write(strings.TrimPrefix(path.Clean(f.Path), "/"), string(f.Content), mode); err != nil {
			return err
		}
	}
	return nil
}
