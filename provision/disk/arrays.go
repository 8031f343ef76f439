package disk

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// StopRAID stops the software RAID arrays that the kernel has assembled, so that
// nothing holds their disks; what the disks hold stays. A machine without any is left alone.
func (m *Manager) StopRAID(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(m.proc, "mdstat"))
	if err != nil || !strings.Contains(string(b), "\nmd") {
		return nil // no driver, or no array
	}
	err = m.run(ctx, "mdadm", "--stop", "--scan")
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "no arrays found") {
		return nil
	}
	return errors.Annotate(err, "cannot stop RAID arrays")
}

// DisableLVM deactivates all volume groups. Without the program there can be
// none active.
func (m *Manager) DisableLVM(ctx context.Context) error {
	err := m.run(ctx, "lvm", "vgchange", "-an")
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	return errors.Annotate(err, "cannot deactivate volume groups")
}

// EnableLVM activates all volume groups.
func (m *Manager) EnableLVM(ctx context.Context) error {
	return errors.Annotate(m.run(ctx, "lvm", "vgchange", "-ay"), "cannot activate volume groups")
}

// ApplyLayout divides the disk at path, makes the volume group if there is one, and all
// file systems except the root, which the image brings. It returns the parts, each
// with the file system it has or will have.
func (m *Manager) ApplyLayout(ctx context.Context, path string, l *config.Layout, random randomReader) ([]Part, error) {
	d, err := m.devices.Open(path, true)
	if err != nil {
		return nil, err
	}
	t, err := m.writeLayout(d, path, l, random)
	if cerr := d.Close(); err == nil && cerr != nil {
		err = errors.Annotatef(cerr, "cannot write %s", path)
	}
	if err != nil {
		return nil, err
	}
	var parts []Part
	for i, e := range t.Partitions {
		p := l.Partitions[i]
		part := Part{Entry: e, Node: PartitionPath(path, e.Number), Content: Content{Type: p.FileSystem, Label: p.Label}}
		if err := m.waitNode(ctx, part.Node); err != nil {
			return nil, err
		}
		if p.MountPoint != "/" {
			if err := m.Format(ctx, part.Node, p.FileSystem, p.Label); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part)
	}
	if l.LVM == nil {
		return parts, nil
	}
	volumes, err := m.makeVolumes(ctx, parts[l.LVM.Partition-1].Node, l.LVM)
	return append(parts, volumes...), err
}

// randomReader is where GUIDs come from.
type randomReader interface{ Read([]byte) (int, error) }

// writeLayout writes the partition table of a layout and has the kernel read it.
func (m *Manager) writeLayout(d Device, path string, l *config.Layout, random randomReader) (*Table, error) {
	size, err := d.Size()
	if err != nil {
		return nil, err
	}
	sector := int64(512)
	if m.attr(strings.TrimPrefix(path, "/dev/"), "queue", "logical_block_size") == "4096" {
		sector = 4096
	}
	t, err := NewTable(l.Partitions, size, sector, random)
	if err != nil {
		return nil, err
	}
	if err := t.Write(d, size); err != nil {
		return nil, err
	}
	if err := d.Sync(); err != nil {
		return nil, errors.Annotatef(err, "cannot write %s", path)
	}
	return t, d.Reread()
}

// makeVolumes makes a volume group on node with its volumes.
func (m *Manager) makeVolumes(ctx context.Context, node string, v *config.LVM) ([]Part, error) {
	if err := m.run(ctx, "lvm", "pvcreate", "-ff", "-y", node); err != nil {
		return nil, errors.Annotatef(err, "cannot make physical volume on %s", node)
	}
	if err := m.run(ctx, "lvm", "vgcreate", "-y", v.VolumeGroup, node); err != nil {
		return nil, errors.Annotatef(err, "cannot make volume group %s", v.VolumeGroup)
	}
	var parts []Part
	for _, lv := range v.Volumes {
		size := []string{"-l", "100%FREE"}
		if lv.SizeMiB > 0 {
			size = []string{"-L", strconv.FormatUint(lv.SizeMiB, 10) + "m"}
		}
		args := append([]string{"lvcreate", "-y", "-W", "y"}, size...)
		if err := m.run(ctx, "lvm", append(args, "-n", lv.Name, v.VolumeGroup)...); err != nil {
			return nil, errors.Annotatef(err, "cannot make volume %s", lv.Name)
		}
		part := Part{Entry: Entry{Name: lv.Name}, Node: "/dev/" + v.VolumeGroup + "/" + lv.Name, Content: Content{Type: lv.FileSystem, Label: lv.Name}}
		if lv.MountPoint != "/" {
			if err := m.Format(ctx, part.Node, lv.FileSystem, lv.Name); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part)
	}
	return parts, nil
}
