package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// leastSize is the size below which a disk is not chosen unless a hint names it.
const leastSize = 1 << 30

// DetectDisk returns the disk to install on: of those that match all hints the
// smallest, by which data disks are spared, and of equals the one whose name comes
// first. A removable or read-only disk, one below 1 GiB and the boot medium do not
// match; but a removable one does if a hint gives its name, serial or WWN.
//
// The error satisfies errors.NotFound and lists every disk with the reason that
// spoke against it.
func (m *Manager) DetectDisk(_ context.Context, hints config.DiskHints) (Info, error) {
	all, err := m.Disks()
	if err != nil {
		return Info{}, err
	}
	var best *Info
	var reasons []string
	for i := range all {
		if why := m.unfit(all[i], hints); why != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", all[i].Path, why))
			continue
		}
		if best == nil || all[i].Size < best.Size {
			best = &all[i]
		}
	}
	if best != nil {
		return *best, nil
	}
	if len(reasons) == 0 {
		reasons = []string{"the machine has no disk"}
	}
	return Info{}, errors.NotFoundf("disk to install on (%s)", strings.Join(reasons, "; "))
}

// unfit returns why the disk must not be chosen, or "".
func (m *Manager) unfit(i Info, h config.DiskHints) string {
	named := h.Name != "" || h.Serial != "" || h.WWN != "" || h.WWNWithExtension != ""
	switch {
	case i.BootMedium:
		return "is the boot medium"
	case i.ReadOnly:
		return "is read-only"
	case i.Removable && !named:
		return "is removable"
	case i.Size < leastSize && !named:
		return "is below 1 GiB"
	}
	return mismatch(i, h, m.resolve(h.Name))
}

// mismatch returns the first hint that the disk does not meet, or "".
func mismatch(i Info, h config.DiskHints, path string) string {
	contains := func(have, want string) bool {
		return strings.Contains(strings.ToLower(have), strings.ToLower(want))
	}
	for _, k := range []struct {
		hint, want, have string
		ok               bool
	}{
		{"name", h.Name, i.Path, path == i.Path},
		{"serial", h.Serial, i.Serial, h.Serial == i.Serial},
		{"WWN", h.WWN, i.WWN, equalWWN(h.WWN, i.WWN)},
		{"WWN with extension", h.WWNWithExtension, i.WWN + i.WWNVendor, equalWWN(h.WWNWithExtension, i.WWN+i.WWNVendor)},
		{"WWN vendor extension", h.WWNVendorExtension, i.WWNVendor, equalWWN(h.WWNVendorExtension, i.WWNVendor)},
		{"model", h.Model, i.Model, contains(i.Model, h.Model)},
		{"vendor", h.Vendor, i.Vendor, contains(i.Vendor, h.Vendor)},
		{"HCTL", h.HCTL, i.HCTL, h.HCTL == i.HCTL},
	} {
		if k.want != "" && !k.ok {
			return fmt.Sprintf("%s is %q, hint %q", k.hint, k.have, k.want)
		}
	}
	if h.MinSizeGB > 0 && uint64(i.Size) < h.MinSizeGB*1e9 {
		return fmt.Sprintf("size is %.1f GB, hint %d", float64(i.Size)/1e9, h.MinSizeGB)
	}
	if h.Rotational != nil && *h.Rotational != i.Rotational {
		return fmt.Sprintf("rotational is %v, hint %v", i.Rotational, *h.Rotational)
	}
	return ""
}

// resolve returns the device that a link below /dev/disk leads to, or path as it is.
func (m *Manager) resolve(path string) string {
	if !strings.HasPrefix(path, "/dev/disk/") {
		return path
	}
	target, err := os.Readlink(m.node(path))
	if err != nil {
		return path
	}
	return "/dev/" + filepath.Base(target)
}

// FindRecorded returns the disk that an earlier run recorded. The error satisfies
// errors.NotFound.
func (m *Manager) FindRecorded(id config.DiskID) (Info, error) {
	if id == (config.DiskID{}) {
		return Info{}, errors.NotFoundf("record of the disk that was installed on")
	}
	all, err := m.Disks()
	if err != nil {
		return Info{}, err
	}
	for _, i := range all {
		if i.Is(id) {
			return i, nil
		}
	}
	return Info{}, errors.NotFoundf("recorded disk (serial %q, WWN %q, name %q)", id.Serial, id.WWN, id.Name)
}
