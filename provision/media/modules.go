package media

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/juju/errors"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Where the initramfs keeps modules: files below ModuleDir, with ModuleAliases and
// ModuleDeps as depmod writes them, and ModuleAlways with the paths of those that are
// loaded on every machine.
const (
	ModuleDir     = "/modules"
	ModuleAliases = "/modules/modules.alias"
	ModuleDeps    = "/modules/modules.dep"
	ModuleAlways  = "/modules/always"
)

// drivers are folders of a kernel's modules whose contents are loaded where
// hardware asks for them by its alias.
var drivers = []string{
	"drivers/ata", "drivers/block", "drivers/cdrom", "drivers/hid", "drivers/hv", "drivers/md", "drivers/message", "drivers/mmc", "drivers/net/ethernet",
	"drivers/net/phy", "drivers/net/bonding", "drivers/net/mdio", "drivers/net/vmxnet3", "drivers/nvme/host", "drivers/scsi", "drivers/usb/host", "drivers/usb/common", "drivers/usb/core",
	"drivers/usb/storage", "drivers/virtio", "drivers/vhost", "drivers/watchdog", "drivers/char/ipmi", "drivers/xen",
}

// always are modules that no hardware asks for.
var always = []string{
	"virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "sd_mod", "sr_mod", "isofs", "nls_ascii", "nls_cp437", "nls_iso8859-1", "nls_utf8", "vfat", "efivarfs", "loop", "xfs", "btrfs", "ext4",
	"dm_mod", "raid0", "raid1", "raid10", "raid456", "bonding", "8021q", "af_packet", "usbhid", "hid_generic", "i6300esb", "iTCO_wdt", "softdog",
}

// addModules copies modules with all they depend on, and the tables to find them
// by. dir is lib/modules/VERSION of an unpacked kernel, after depmod.
func addModules(a *Archive, dir string) error {
	deps, err := readDeps(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	want := map[string]bool{}
	var listed []string
	var add func(p string)
	add = func(p string) {
		if want[p] {
			return
		}
		want[p] = true
		for _, d := range deps[p] {
			add(d)
		}
	}
	for p := range deps {
		for _, d := range drivers {
			if strings.HasPrefix(p, "kernel/"+d+"/") {
				add(p)
			}
		}
	}
	for _, name := range always {
		for p := range deps {
			if ModuleName(p) == strings.ReplaceAll(name, "-", "_") {
				add(p)
				listed = append(listed, plain(p))
			}
		}
	}
	var table strings.Builder
	paths := make([]string, 0, len(want))
	for p := range want {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		b, err := readModule(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		a.File(path.Join(ModuleDir, plain(p)), 0o644, b)
		table.WriteString(plain(p) + ":")
		for _, d := range deps[p] {
			table.WriteString(" " + plain(d))
		}
		table.WriteString("\n")
	}
	a.File(ModuleDeps, 0o644, []byte(table.String()))
	a.File(ModuleAlways, 0o644, []byte(strings.Join(listed, "\n")+"\n"))
	return addAliases(a, filepath.Join(dir, "modules.alias"), want)
}

// addAliases copies the lines of modules.alias for modules that are there.
func addAliases(a *Archive, file string, want map[string]bool) error {
	names := map[string]bool{}
	for p := range want {
		names[ModuleName(p)] = true
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return errors.Annotate(err, "cannot read module aliases")
	}
	var out strings.Builder
	for _, line := range strings.Split(string(b), "\n") {
		w := strings.Fields(line)
		if len(w) == 3 && w[0] == "alias" && names[strings.ReplaceAll(w[2], "-", "_")] {
			out.WriteString(line + "\n")
		}
	}
	a.File(ModuleAliases, 0o644, []byte(out.String()))
	return nil
}

// ModuleName returns the name by which the kernel knows the module in a file.
func ModuleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// plain returns a module's path without the suffix of a compression.
func plain(p string) string {
	before, _, ok := strings.Cut(p, ".ko")
	if !ok {
		return p
	}
	return before + ".ko"
}

// readDeps reads modules.dep: a module and those it needs, all of them.
func readDeps(file string) (map[string][]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read module dependencies (run depmod)")
	}
	deps := map[string][]string{}
	for _, line := range strings.Split(string(b), "\n") {
		if p, rest, ok := strings.Cut(line, ":"); ok {
			deps[p] = strings.Fields(rest)
		}
	}
	return deps, nil
}

// readModule reads a module, unpacked.
func readModule(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read module")
	}
	var r io.Reader
	switch path.Ext(file) {
	case ".ko":
		return b, nil
	case ".xz":
		r, err = xz.NewReader(bytes.NewReader(b))
	case ".gz":
		r, err = gzip.NewReader(bytes.NewReader(b))
	case ".zst":
		r, err = zstd.NewReader(bytes.NewReader(b))
	default:
		return nil, errors.NotSupportedf("module %s", file)
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot unpack module %s", file)
	}
	out, err := io.ReadAll(r)
	return out, errors.Annotatef(err, "cannot unpack module %s", file)
}
