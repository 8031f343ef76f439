package provision

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
)

// mountRoot mounts the installed system.
func (o *Orchestrator) mountRoot(ctx context.Context) error {
	f := o.facts()
	return o.mount(ctx, f.Root, o.opts.Root, f.RootFS, "")
}

// mountBoot mounts what the system boots from: /boot if its fstab has one, and
// the EFI system partition, at the place in fstab or at /boot/efi.
func (o *Orchestrator) mountBoot(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	_, parts, err := o.disk.Parts(i.Path)
	if err != nil {
		return err
	}
	esp := false
	entries := o.bootEntries()
	for _, e := range entries {
		p, ok := resolve(e.source, parts)
		if !ok {
			logger.Warningf("%s of the installed system's fstab is not on %s", e.dir, i)
			continue
		}
		if err := o.mountInside(ctx, p.Node, e.dir, p.Content.Type); err != nil {
			return err
		}
		esp = esp || p.Node == o.facts().ESP
	}
	if esp || o.facts().ESP == "" {
		return nil
	}
	return o.mountInside(ctx, o.facts().ESP, "/boot/efi", "vfat")
}

// mountInside mounts a device on a folder of the installed system.
func (o *Orchestrator) mountInside(ctx context.Context, node, dir, fs string) error {
	if fs == "" {
		fs = "auto"
	}
	root, err := os.OpenRoot(o.opts.Root)
	if err != nil {
		return errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(strings.TrimPrefix(dir, "/"), 0o755); err != nil {
		return errors.Annotatef(err, "cannot make %s of the installed system", dir)
	}
	return o.mount(ctx, node, filepath.Join(o.opts.Root, dir), fs, "")
}

// fstabEntry is a line of an fstab.
type fstabEntry struct{ source, dir string }

// bootEntries returns the lines for /boot and the EFI system partition in the
// installed system's fstab, outer folder first.
func (o *Orchestrator) bootEntries() []fstabEntry {
	if o.cfg.Layout != nil {
		return layoutBoot(o.cfg.Layout)
	}
	b, err := o.system.read("etc/fstab")
	if err != nil {
		return nil
	}
	var out []fstabEntry
	for _, line := range strings.Split(b, "\n") {
		w := strings.Fields(line)
		if len(w) < 3 || strings.HasPrefix(w[0], "#") {
			continue
		}
		if w[1] == "/boot" || w[1] == "/boot/efi" || w[1] == "/efi" {
			out = append(out, fstabEntry{strings.Trim(w[0], `"`), w[1]})
		}
	}
	slices.SortStableFunc(out, func(a, b fstabEntry) int { return len(a.dir) - len(b.dir) })
	return out
}

// layoutBoot returns the boot folders of a layout.
func layoutBoot(l *config.Layout) []fstabEntry {
	var out []fstabEntry
	for _, p := range l.Partitions {
		if p.MountPoint == "/boot" || p.MountPoint == "/boot/efi" || p.MountPoint == "/efi" {
			out = append(out, fstabEntry{"PARTLABEL=" + p.Label, p.MountPoint})
		}
	}
	slices.SortStableFunc(out, func(a, b fstabEntry) int { return len(a.dir) - len(b.dir) })
	return out
}

// resolve finds the partition that an fstab's source names.
func resolve(source string, parts []disk.Part) (disk.Part, bool) {
	for prefix, key := range map[string]string{"/dev/disk/by-uuid/": "UUID", "/dev/disk/by-label/": "LABEL", "/dev/disk/by-partuuid/": "PARTUUID", "/dev/disk/by-partlabel/": "PARTLABEL"} {
		if rest, ok := strings.CutPrefix(source, prefix); ok {
			source = key + "=" + rest
		}
	}
	key, value, found := strings.Cut(source, "=")
	value = strings.Trim(value, `"`)
	for _, p := range parts {
		have := map[string]string{"UUID": p.Content.UUID, "LABEL": p.Content.Label, "PARTUUID": p.GUID, "PARTLABEL": p.Name}[key]
		if found && have != "" && strings.EqualFold(have, value) || !found && p.Node == source {
			return p, true
		}
	}
	return disk.Part{}, false
}

// setupBinds gives commands inside the installed system the devices and kernel interfaces
// they need. The firmware's variables are not among them: boot entries are made from outside.
func (o *Orchestrator) setupBinds(ctx context.Context) error {
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run"} {
		root, err := os.OpenRoot(o.opts.Root)
		if err != nil {
			return errors.Annotate(err, "cannot open installed system")
		}
		err = root.MkdirAll(strings.TrimPrefix(dir, "/"), 0o755)
		_ = root.Close()
		if err != nil {
			return errors.Annotatef(err, "cannot make %s of the installed system", dir)
		}
		if err := o.mount(ctx, dir, filepath.Join(o.opts.Root, dir), "bind", ""); err != nil {
			return err
		}
	}
	return nil
}

// writeFstab writes the file systems of the layout.
func (o *Orchestrator) writeFstab(context.Context) error {
	return o.system.write("etc/fstab", fstab(o.cfg.Layout), 0o644)
}

// fstab returns the lines for a layout, "/" first.
func fstab(l *config.Layout) string {
	var lines []string
	add := func(source, fs, dir string) {
		switch {
		case fs == "swap":
			lines = append(lines, fmt.Sprintf("%s none swap sw 0 0", source))
		case dir == "":
		case dir == "/":
			lines = append([]string{fmt.Sprintf("%s / %s defaults 0 1", source, fs)}, lines...)
		case fs == "vfat":
			lines = append(lines, fmt.Sprintf("%s %s vfat umask=0077 0 2", source, dir))
		default:
			lines = append(lines, fmt.Sprintf("%s %s %s defaults 0 2", source, dir, fs))
		}
	}
	for _, p := range l.Partitions {
		add("PARTLABEL="+strings.ReplaceAll(p.Label, " ", `\040`), p.FileSystem, p.MountPoint)
	}
	if l.LVM != nil {
		for _, v := range l.LVM.Volumes {
			add("/dev/"+l.LVM.VolumeGroup+"/"+v.Name, v.FileSystem, v.MountPoint)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// disableBoot renames what the boot loader reads, wherever it is: below /boot, on a
// boot partition, on the EFI system partition.
func (o *Orchestrator) disableBoot(context.Context) error {
	names, err := o.system.disableBoot()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.NotFoundf("boot loader configuration on the recorded disk")
	}
	logger.Infof("renamed %s", strings.Join(names, ", "))
	return nil
}
