package provision

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/efi"
)

// vars returns the firmware's variables, and false if there are none or they are
// not mounted.
func (c *Configurator) vars() (efi.Vars, bool) {
	dir := filepath.Join(c.disk.SysRoot(), "firmware", "efi", "efivars")
	mounted, err := c.disk.IsMountPoint(dir)
	if err != nil || !mounted {
		return efi.Vars{}, false
	}
	return efi.NewVars(dir), true
}

// RemoveEFIBootEntries removes stale EFI boot entries: those with our label, and those
// that lead to a partition that no disk of this machine has any more. Entries for the
// network, for optical drives and for disks that are still there stay. An entry
// that cannot be removed is a warning.
func (c *Configurator) RemoveEFIBootEntries(ctx context.Context) error {
	vars, ok := c.vars()
	if !ok {
		logger.Infof("boot entries stay: the firmware's variables are not mounted")
		return nil
	}
	entries, err := vars.Entries()
	if err != nil {
		logger.Warningf("boot entries stay: %v", err)
		return nil
	}
	known, err := c.partitions()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return errors.Trace(err)
		}
		stale := e.Partition != "" && !known[e.Partition]
		if e.Label != c.label && !stale {
			continue
		}
		logger.Infof("removing boot entry %s", e)
		if err := vars.Remove(e.ID); err != nil {
			logger.Warningf("%v", err)
		}
	}
	return nil
}

// partitions returns the GUIDs of all partitions of all disks.
func (c *Configurator) partitions() (map[string]bool, error) {
	all, err := c.disk.Disks()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, i := range all {
		_, parts, err := c.disk.Parts(i.Path)
		if err != nil {
			logger.Infof("%s: %v", i, err)
			continue
		}
		for _, p := range parts {
			known[p.GUID] = true
		}
	}
	return known, nil
}

// CreateEFIBootEntry creates a new EFI boot entry for the installed OS and makes it the
// first choice. bootPart is the EFI system partition's device, mounted below the root;
// "" makes no entry, and neither does a machine not started by UEFI. The loader is the one
// found on that partition.
func (c *Configurator) CreateEFIBootEntry(_ context.Context, diskDev, bootPart string) error {
	if bootPart == "" {
		return nil
	}
	vars, ok := c.vars()
	if !ok {
		logger.Infof("no boot entry is made: the firmware's variables are not mounted")
		return nil
	}
	loader, err := c.loader()
	if err != nil {
		return err
	}
	table, parts, err := c.disk.Parts(diskDev)
	if err != nil {
		return err
	}
	number := disk.PartitionNumber(bootPart, diskDev)
	for _, p := range parts {
		if p.Number != number || p.GUID == "" {
			continue
		}
		e, err := vars.Create(efi.Option{
			Label: c.label, Active: true, Partition: p.GUID, Number: uint32(p.Number), File: loader,
			Start: uint64(p.Start / table.SectorSize), Size: uint64(p.Size / table.SectorSize),
		})
		if err != nil {
			return err
		}
		logger.Infof("boot entry %s starts %s", e, loader)
		return nil
	}
	return errors.NotFoundf("GPT partition %s on %s", bootPart, diskDev)
}

// loader finds the loader where an EFI system partition is mounted in the installed system.
func (c *Configurator) loader() (string, error) {
	var first error
	for _, dir := range []string{"boot/efi", "efi", "boot"} {
		path := filepath.Join(c.root, dir)
		if st, err := os.Lstat(path); err != nil || !st.IsDir() {
			continue
		}
		loader, err := efi.FindLoader(path, c.arch, c.osRelease("ID"))
		if err == nil {
			return loader, nil
		}
		if first == nil || strings.Contains(dir, "efi") {
			first = err
		}
	}
	if first == nil {
		first = errors.NotFoundf("EFI system partition in the installed system")
	}
	return "", first
}
