package disk

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// Part is a partition or logical volume with what it holds.
type Part struct {
	Entry
	Node    string
	Content Content
}

// Parts reads the partition table of the disk at path and probes each partition.
func (m *Manager) Parts(path string) (*Table, []Part, error) {
	d, err := m.devices.Open(path, false)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = d.Close() }()
	size, err := d.Size()
	if err != nil {
		return nil, nil, err
	}
	t, err := ReadTable(d, size)
	if err != nil {
		return nil, nil, errors.Annotatef(err, "cannot read partition table of %s", path)
	}
	var parts []Part
	for _, e := range t.Partitions {
		content := Probe(io.NewSectionReader(d, e.Start, e.Size))
		parts = append(parts, Part{Entry: e, Node: PartitionPath(path, e.Number), Content: content})
	}
	return t, parts, nil
}

// isLinux reports whether a file system can be the root of a Linux system.
func isLinux(fs string) bool {
	switch fs {
	case "ext2", "ext3", "ext4", "xfs", "btrfs":
		return true
	}
	return false
}

// FindRoot returns the part that holds the root file system: one whose type says
// so for this architecture; else one whose partition name or label is root-like; else the
// largest Linux file system that is not marked as a boot partition. The
// error satisfies errors.NotFound and lists what was seen.
func FindRoot(parts []Part, arch string) (Part, error) {
	rootType := map[string]string{"amd64": TypeRootAMD64, "arm64": TypeRootARM64}[arch]
	var best *Part
	rank := func(p Part) int {
		name, label := strings.ToLower(p.Name), strings.ToLower(p.Content.Label)
		switch {
		case rootType != "" && p.Type == rootType:
			return 3
		case name == "root" || name == "/" || name == "rootfs" || label == "root" || label == "/" || strings.HasSuffix(label, "rootfs"):
			return 2
		case p.Type == TypeXBOOTLDR || label == "boot" || name == "boot":
			return 0
		}
		return 1
	}
	var seen []string
	for i, p := range parts {
		seen = append(seen, p.Node+" "+p.Type+" "+p.Content.Type)
		if !isLinux(p.Content.Type) {
			continue
		}
		if best == nil || rank(p) > rank(*best) || rank(p) == rank(*best) && p.Size > best.Size {
			best = &parts[i]
		}
	}
	if best == nil {
		return Part{}, errors.NotFoundf("root file system (seen: %s)", strings.Join(seen, ", "))
	}
	return *best, nil
}

// Volumes returns the active logical volumes, each with what it holds.
func (m *Manager) Volumes(ctx context.Context) ([]Part, error) {
	out, err := m.cmd.Run(ctx, "lvm", "lvs", "--noheadings", "--units", "b", "--nosuffix", "-o", "lv_path,lv_name,lv_size")
	if err != nil {
		return nil, errors.Annotate(err, "cannot list logical volumes")
	}
	var parts []Part
	for _, line := range strings.Split(string(out), "\n") {
		w := strings.Fields(line)
		if len(w) != 3 || !strings.HasPrefix(w[0], "/dev/") {
			continue
		}
		size, _ := strconv.ParseInt(w[2], 10, 64)
		p := Part{Entry: Entry{Name: w[1], Size: size}, Node: w[0]}
		if d, err := m.devices.Open(p.Node, false); err == nil {
			p.Content = Probe(d)
			_ = d.Close()
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Reread makes the kernel read the partition table of path, and waits for the
// nodes of its partitions.
func (m *Manager) Reread(ctx context.Context, path string) error {
	d, err := m.devices.Open(path, false)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Reread(); err != nil {
		return err
	}
	size, err := d.Size()
	if err != nil {
		return err
	}
	t, err := ReadTable(d, size)
	if err != nil {
		return errors.Annotatef(err, "cannot read partition table of %s", path)
	}
	for _, e := range t.Partitions {
		if err := m.waitNode(ctx, PartitionPath(path, e.Number)); err != nil {
			return err
		}
	}
	return nil
}

// Grow makes partition n of path reach to the end of the disk, see Table.Grow.
func (m *Manager) Grow(ctx context.Context, path string, n int) (bool, error) {
	d, err := m.devices.Open(path, true)
	if err != nil {
		return false, err
	}
	defer func() { _ = d.Close() }()
	size, err := d.Size()
	if err != nil {
		return false, err
	}
	t, err := ReadTable(d, size)
	if err != nil {
		return false, errors.Annotatef(err, "cannot read partition table of %s", path)
	}
	grew, err := t.Grow(d, n, size)
	if err != nil {
		return false, errors.Annotatef(err, "cannot grow partition %d of %s", n, path)
	}
	if err := d.Sync(); err != nil {
		return false, errors.Annotatef(err, "cannot write %s", path)
	}
	if err := d.Reread(); err != nil {
		return false, err
	}
	return grew, m.waitNode(ctx, PartitionPath(path, n))
}
