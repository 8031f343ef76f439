package config

import (
	"path"
	"regexp"
	"strings"

	"github.com/juju/errors"
)

// Layout says how to divide the target disk when the image does not bring its
// own partitions. The image is then one file system, written to the part whose
// mount point is "/".
type Layout struct {
	Partitions []Partition `json:"partitions"`
	LVM        *LVM        `json:"lvm,omitempty"`
}

// Partition is one entry of the GPT that a layout makes.
type Partition struct {
	Label      string `json:"label"`
	SizeMiB    uint64 `json:"size-mib,omitempty"`  // 0 takes the rest; only the last may
	TypeGUID   string `json:"type-guid,omitempty"` // "" follows from the file system
	FileSystem string `json:"file-system,omitempty"`
	MountPoint string `json:"mount-point,omitempty"`
}

// LVM is one volume group on one partition of the layout.
type LVM struct {
	VolumeGroup string   `json:"volume-group"`
	Partition   int      `json:"partition"` // 1-based number of the partition below it
	Volumes     []Volume `json:"volumes"`
}

// Volume is one logical volume.
type Volume struct {
	Name       string `json:"name"`
	SizeMiB    uint64 `json:"size-mib,omitempty"` // 0 takes the rest; only the last may
	FileSystem string `json:"file-system,omitempty"`
	MountPoint string `json:"mount-point,omitempty"`
}

var (
	partLabel = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_. -]{0,35}$`)
	lvmName   = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,99}$`)
	guid      = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
)

// Validate returns an error satisfying errors.NotValid that names the first
// thing wrong with the layout.
func (l *Layout) Validate() error {
	if len(l.Partitions) == 0 || len(l.Partitions) > 128 {
		return errors.NotValidf("layout with %d partitions (want 1 to 128)", len(l.Partitions))
	}
	labels, mounts := map[string]bool{}, map[string]bool{}
	for i, p := range l.Partitions {
		if !partLabel.MatchString(p.Label) {
			return errors.NotValidf("partition label %q (want 1 to 36 letters, digits, blanks or _ . -)", p.Label)
		}
		if labels[p.Label] {
			return errors.NotValidf("second partition with label %q", p.Label)
		}
		labels[p.Label] = true
		if p.SizeMiB == 0 && i != len(l.Partitions)-1 {
			return errors.NotValidf("partition %q without a size before the last", p.Label)
		}
		if p.TypeGUID != "" && !guid.MatchString(p.TypeGUID) {
			return errors.NotValidf("type GUID %q of partition %q", p.TypeGUID, p.Label)
		}
		if err := checkMount(mounts, p.FileSystem, p.MountPoint); err != nil {
			return errors.Annotatef(err, "partition %q", p.Label)
		}
	}
	if l.LVM != nil {
		if err := l.LVM.validate(l.Partitions, mounts); err != nil {
			return err
		}
	}
	if !mounts["/"] {
		return errors.NotValidf("layout without a mount point \"/\"")
	}
	return nil
}

func (v *LVM) validate(parts []Partition, mounts map[string]bool) error {
	if !lvmName.MatchString(v.VolumeGroup) {
		return errors.NotValidf("volume group name %q", v.VolumeGroup)
	}
	if v.Partition < 1 || v.Partition > len(parts) {
		return errors.NotValidf("partition %d below volume group %q (the layout has %d)", v.Partition, v.VolumeGroup, len(parts))
	}
	if p := parts[v.Partition-1]; p.FileSystem != "" || p.MountPoint != "" {
		return errors.NotValidf("partition %q below volume group %q with a file system of its own", p.Label, v.VolumeGroup)
	}
	if len(v.Volumes) == 0 || len(v.Volumes) > 256 {
		return errors.NotValidf("volume group %q with %d volumes (want 1 to 256)", v.VolumeGroup, len(v.Volumes))
	}
	names := map[string]bool{}
	for i, lv := range v.Volumes {
		if !lvmName.MatchString(lv.Name) || names[lv.Name] {
			return errors.NotValidf("volume name %q (want unique letters, digits or _ . + -)", lv.Name)
		}
		names[lv.Name] = true
		if lv.SizeMiB == 0 && i != len(v.Volumes)-1 {
			return errors.NotValidf("volume %q without a size before the last", lv.Name)
		}
		if err := checkMount(mounts, lv.FileSystem, lv.MountPoint); err != nil {
			return errors.Annotatef(err, "volume %q", lv.Name)
		}
	}
	return nil
}

// checkMount checks one file system with its mount point and adds it to seen.
func checkMount(seen map[string]bool, fs, mount string) error {
	switch fs {
	case "", "vfat", "ext4", "xfs", "swap":
	default:
		return errors.NotValidf("file system %q (want vfat, ext4, xfs or swap)", fs)
	}
	if mount == "" {
		return nil
	}
	if fs == "" || fs == "swap" {
		return errors.NotValidf("mount point %q without a file system to mount", mount)
	}
	if !path.IsAbs(mount) || path.Clean(mount) != mount || strings.ContainsAny(mount, " \t\n\\#") {
		return errors.NotValidf("mount point %q (want a clean absolute path without blanks)", mount)
	}
	if seen[mount] {
		return errors.NotValidf("second mount point %q", mount)
	}
	seen[mount] = true
	return nil
}
