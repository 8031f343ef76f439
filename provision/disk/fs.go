package disk

import (
	"context"

	"github.com/juju/errors"
)

// CheckFilesystem checks the file system on node before it is mounted, and repairs an
// ext one. Without the program for it the check is left out, with a warning: the
// image was verified byte by byte when it was written.
func (m *Manager) CheckFilesystem(ctx context.Context, node, fs string) error {
	var err error
	switch fs {
	case "ext2", "ext3", "ext4":
		err = m.run(ctx, "e2fsck", "-fy", node)
		if code := ExitCode(err); code > 0 && code < 4 { // e2fsck(8): 1 and 2 are "corrected"
			logger.Warningf("file system on %s was repaired", node)
			err = nil
		}
	case "xfs":
		err = m.run(ctx, "xfs_repair", "-n", node)
	case "btrfs":
		err = m.run(ctx, "btrfs", "check", "--readonly", node)
	default:
		return nil
	}
	if errors.Is(err, errors.NotFound) {
		logger.Warningf("file system on %s is not checked: %v", node, err)
		return nil
	}
	return errors.Annotatef(err, "cannot check file system on %s", node)
}

// ResizeFilesystem makes the file system on node, mounted at root, as large as its
// partition. A program that the installer lacks is taken from the installed
// system, which has those for its own file system.
func (m *Manager) ResizeFilesystem(ctx context.Context, node, fs, root string) error {
	var args, inside []string
	switch fs {
	case "ext2", "ext3", "ext4":
		args = []string{"resize2fs", node}
		inside = args
	case "xfs":
		args, inside = []string{"xfs_growfs", root}, []string{"xfs_growfs", "/"}
	case "btrfs":
		args, inside = []string{"btrfs", "filesystem", "resize", "max", root}, []string{"btrfs", "filesystem", "resize", "max", "/"}
	default:
		return nil
	}
	err := m.run(ctx, args[0], args[1:]...)
	if errors.Is(err, errors.NotFound) {
		err = m.run(ctx, "chroot", append([]string{root}, inside...)...)
	}
	return errors.Annotatef(err, "cannot resize file system on %s", node)
}

// Format makes a file system of kind fs on node; "" makes none.
func (m *Manager) Format(ctx context.Context, node, fs, label string) error {
	var err error
	switch fs {
	case "vfat":
		err = m.run(ctx, "mkfs.vfat", "-F", "32", "-n", label[:min(11, len(label))], node)
	case "ext4":
		err = m.run(ctx, "mkfs.ext4", "-F", "-L", label[:min(16, len(label))], node)
	case "xfs":
		err = m.run(ctx, "mkfs.xfs", "-f", "-L", label[:min(12, len(label))], node)
	case "swap":
		err = m.run(ctx, "mkswap", "-L", label[:min(15, len(label))], node)
	}
	return errors.Annotatef(err, "cannot make %s on %s", fs, node)
}
