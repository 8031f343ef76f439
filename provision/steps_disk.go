package provision

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
)

// noFirmware says that the machine was not started by UEFI.
func (o *Orchestrator) noFirmware() string {
	if _, err := os.Stat(filepath.Dir(o.efivars())); err != nil {
		return "the machine was not started by UEFI"
	}
	return ""
}

// mountEFIVars mounts the firmware's variables. Without them the machine
// still boots by the fallback path, so a failure is no more than a warning.
func (o *Orchestrator) mountEFIVars(ctx context.Context) error {
	if mounted, err := o.disk.IsMountPoint(o.efivars()); err == nil && mounted {
		return nil
	}
	if err := o.mount(ctx, "efivarfs", o.efivars(), "efivarfs", ""); err != nil {
		logger.Warningf("boot entries cannot be changed: %v", err)
	}
	return nil
}

// setupNamespaces divides NVMe controllers; the first namespace made is the disk
// to install on if nothing else is said.
func (o *Orchestrator) setupNamespaces(ctx context.Context) error {
	for i, c := range o.cfg.Namespaces {
		first, err := o.disk.SetupNamespaces(ctx, c)
		if err != nil {
			return err
		}
		if i == 0 && o.cfg.RootDevice == (config.DiskHints{}) {
			o.facts().Disk = config.DiskID{Name: first}
		}
	}
	return nil
}

// detectDisk chooses the disk. On a resume it must be the same one again, whatever
// its name is now.
func (o *Orchestrator) detectDisk(ctx context.Context) error {
	f := o.facts()
	var i disk.Info
	var err error
	if f.Disk != (config.DiskID{}) {
		i, err = o.disk.FindRecorded(f.Disk)
	} else {
		i, err = o.disk.DetectDisk(ctx, o.cfg.RootDevice)
	}
	if err != nil {
		return err
	}
	for _, keep := range o.cfg.KeepDisks {
		if i.Named(keep) {
			return errors.NotSupportedf("installing on %s, which keep-disks lists,", i)
		}
	}
	if i.BootMedium {
		return errors.NotSupportedf("installing on %s, the boot medium,", i)
	}
	if where, err := o.disk.InUse(i); err != nil {
		return err
	} else if where != "" && !slices.Contains(f.Mounts, where) {
		return errors.NotSupportedf("installing on %s while it is in use at %s", i, where)
	}
	f.Disk, f.DiskSize = i.ID(), i.Size
	logger.Infof("disk to install on: %s", i)
	return nil
}

// target returns the disk that was chosen.
func (o *Orchestrator) target() (disk.Info, error) {
	return o.disk.FindRecorded(o.facts().Disk)
}

// verifyImage finds out, before anything is wiped, that an image can be had and fits.
func (o *Orchestrator) verifyImage(ctx context.Context) error {
	url, size, err := o.opts.Images.Check(ctx, o.cfg.Image)
	if err != nil {
		return err
	}
	if size > o.facts().DiskSize {
		return errors.NotValidf("image of %d MiB on a disk of %d MiB", size>>20, o.facts().DiskSize>>20)
	}
	o.facts().Image = url
	return nil
}

// wipeDisk empties the chosen disk, and no other.
func (o *Orchestrator) wipeDisk(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	return o.wipe(ctx, i)
}

// wipe empties one disk as the config asks.
func (o *Orchestrator) wipe(ctx context.Context, i disk.Info) error {
	logger.Infof("wiping %s", i)
	if o.cfg.Secure {
		if err := o.disk.SecureErase(ctx, i); err != nil {
			return err
		}
	}
	return o.disk.Wipe(ctx, i)
}

// wipeAllDisks wipes what a hard deprovision may wipe. Every disk is named with its
// serial number and its fate, in the log and to the controller, before the first
// is touched.
func (o *Orchestrator) wipeAllDisks(ctx context.Context) error {
	all, err := o.disk.Disks()
	if err != nil {
		return err
	}
	var wipe []disk.Info
	var lines []string
	for _, i := range all {
		if why := o.keeps(i); why != "" {
			lines = append(lines, "keep "+i.String()+": "+why)
			continue
		}
		lines = append(lines, "wipe "+i.String())
		wipe = append(wipe, i)
	}
	for _, line := range lines {
		logger.Infof("%s", line)
	}
	if err := o.report(ctx, config.Status{State: config.StateStep, Step: "wipe-all-disks", Result: "running", Message: strings.Join(lines, "\n")}); err != nil {
		return errors.Annotate(err, "cannot name the disks before wiping them")
	}
	for _, i := range wipe {
		if err := o.disk.CheckWipe(i); err != nil { // all or none, as far as can be known
			return err
		}
	}
	for _, i := range wipe {
		if err := o.wipe(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// keeps returns why a hard deprovision leaves the disk alone, or "".
func (o *Orchestrator) keeps(i disk.Info) string {
	switch {
	case i.BootMedium:
		return "is the boot medium"
	case i.Removable:
		return "is removable"
	}
	for _, keep := range o.cfg.KeepDisks {
		if i.Named(keep) {
			return "is listed in keep-disks"
		}
	}
	return ""
}

// findRecordedDisk finds the disk that an earlier run installed on.
func (o *Orchestrator) findRecordedDisk(context.Context) error {
	i, err := o.disk.FindRecorded(o.cfg.Recorded)
	if err != nil {
		return err
	}
	o.facts().Disk, o.facts().DiskSize = i.ID(), i.Size
	return nil
}

// applyLayout divides the disk. Volumes that a try before this one made are deactivated: the
// kernel reads no table of a disk that they are on.
func (o *Orchestrator) applyLayout(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	if o.cfg.Layout.LVM != nil {
		if err := o.disk.DisableLVM(ctx); err != nil {
			return err
		}
	}
	parts, err := o.disk.ApplyLayout(ctx, i.Path, o.cfg.Layout, o.opts.Random)
	if err != nil {
		return errors.Annotatef(err, "cannot divide %s", i)
	}
	o.facts().Root = rootOf(o.cfg.Layout, parts)
	return nil
}

// rootOf returns the device of the layout's part whose mount point is "/".
func rootOf(l *config.Layout, parts []disk.Part) string {
	for i, p := range l.Partitions {
		if p.MountPoint == "/" {
			return parts[i].Node
		}
	}
	if l.LVM != nil {
		for i, v := range l.LVM.Volumes {
			if v.MountPoint == "/" {
				return parts[len(l.Partitions)+i].Node
			}
		}
	}
	return ""
}

// streamImage writes the image: over the whole disk, or with a layout to its root part.
func (o *Orchestrator) streamImage(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	path := i.Path
	if o.cfg.Layout != nil {
		path = o.facts().Root
	}
	d, err := o.disk.Open(path, true)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	size, err := d.Size()
	if err != nil {
		return err
	}
	result, err := o.opts.Images.Write(ctx, o.cfg.Image, image.Target{URL: o.facts().Image, Device: d, Size: size})
	if err != nil {
		return errors.Annotatef(err, "cannot write image to %s", i)
	}
	o.facts().Written, o.facts().Checksum = result.Bytes, result.Checksum
	return nil
}

// rereadPartitions makes the kernel see what was written. It does not while volumes on the disk
// are active, as they are when a run goes on after enable-lvm, which then activates them again.
func (o *Orchestrator) rereadPartitions(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	if slices.Contains(o.facts().Mounts, o.opts.Root) { // what is mounted has been read
		return nil
	}
	if o.facts().LVM {
		if err := o.disk.DisableLVM(ctx); err != nil {
			return err
		}
	}
	return o.disk.Reread(ctx, i.Path)
}

// enableLVM activates volume groups if the disk has any: the program need not
// be there for others.
func (o *Orchestrator) enableLVM(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	_, parts, err := o.disk.Parts(i.Path)
	if err != nil {
		return err
	}
	o.facts().LVM = false
	for _, p := range parts {
		if p.Content.Type == "lvm" {
			o.facts().LVM = true
			return o.disk.EnableLVM(ctx)
		}
	}
	return nil
}

// parsePartitions finds the root file system and the EFI system partition.
func (o *Orchestrator) parsePartitions(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	table, parts, err := o.disk.Parts(i.Path)
	if err != nil {
		return err
	}
	f := o.facts()
	f.ESP = ""
	if esp, ok := table.FindESP(); ok {
		f.ESP = disk.PartitionPath(i.Path, esp.Number)
	} else if o.noFirmware() == "" {
		logger.Warningf("%s has no EFI system partition", i)
	}
	if f.LVM {
		volumes, err := o.disk.Volumes(ctx)
		if err != nil {
			return err
		}
		if root, err := disk.FindRoot(volumes, o.opts.Arch); err == nil {
			f.Root, f.RootFS = root.Node, root.Content.Type
			return nil
		}
	}
	root, err := disk.FindRoot(parts, o.opts.Arch)
	if err != nil {
		return errors.Annotatef(err, "%s", i)
	}
	f.Root, f.RootFS = root.Node, root.Content.Type
	return nil
}

// growPartition gives the root partition the rest of the disk, if it is the last
// one; it also moves a GPT's backup to the end of the disk.
func (o *Orchestrator) growPartition(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	number := disk.PartitionNumber(o.facts().Root, i.Path)
	if number == 0 {
		logger.Infof("%s is no partition of %s: it keeps its size", o.facts().Root, i.Path)
		return nil
	}
	o.facts().Grew, err = o.disk.Grow(ctx, i.Path, number)
	return err
}

// checkFilesystem checks the root file system before it is mounted.
func (o *Orchestrator) checkFilesystem(ctx context.Context) error {
	return o.disk.CheckFilesystem(ctx, o.facts().Root, o.facts().RootFS)
}

// resizeFilesystem makes the root file system as large as its partition.
func (o *Orchestrator) resizeFilesystem(ctx context.Context) error {
	if o.cfg.Layout == nil && !o.facts().Grew {
		return nil
	}
	return o.disk.ResizeFilesystem(ctx, o.facts().Root, o.facts().RootFS, o.opts.Root)
}
