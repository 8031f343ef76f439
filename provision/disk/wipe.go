package disk

import (
	"context"
	"strings"

	"github.com/juju/errors"
)

// edge is how much of both ends of a disk and of each partition a wipe zeroes: all
// places where partition tables, file systems, LVM, RAID and ZFS keep what they are found by.
const edge = 1 << 20

// CheckWipe returns an error satisfying errors.NotSupported, with the reason, if
// the disk must not be wiped: it is the boot medium, removable, read-only, or something on it
// is mounted.
func (m *Manager) CheckWipe(i Info) error {
	switch {
	case i.BootMedium:
		return errors.NotSupportedf("wiping %s, the boot medium,", i)
	case i.Removable:
		return errors.NotSupportedf("wiping %s, which is removable,", i)
	case i.ReadOnly:
		return errors.NotSupportedf("wiping %s, which is read-only,", i)
	}
	where, err := m.InUse(i)
	if err != nil {
		return err
	}
	if where != "" {
		return errors.NotSupportedf("wiping %s while it is in use at %s", i, where)
	}
	return nil
}

// Wipe makes the disk look empty: both ends of it and of each of its partitions are
// zeroed. What lies between stays; use SecureErase where that matters.
func (m *Manager) Wipe(_ context.Context, i Info) error {
	if err := m.CheckWipe(i); err != nil {
		return err
	}
	d, err := m.devices.Open(i.Path, true)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	size, err := d.Size()
	if err != nil {
		return err
	}
	type span struct{ start, size int64 }
	spans := []span{{0, size}}
	if t, err := ReadTable(d, size); err == nil {
		for _, p := range t.Partitions {
			spans = append(spans, span{p.Start, min(p.Size, size-p.Start)})
		}
	} else {
		logger.Infof("%s has no readable partition table: %v", i.Path, err)
	}
	zeros := make([]byte, edge)
	for n := len(spans) - 1; n >= 0; n-- { // the table itself goes last: a cut can be wiped again
		s := spans[n]
		for _, at := range []int64{s.start, max(s.start, s.start+s.size-edge)} {
			if _, err := d.WriteAt(zeros[:min(edge, s.size)], at); err != nil {
				return errors.Annotatef(err, "cannot wipe %s", i)
			}
		}
	}
	if err := d.Sync(); err != nil {
		return errors.Annotatef(err, "cannot wipe %s", i)
	}
	return d.Reread()
}

// erasePassword is set on an ATA drive only because the standard (ACS-4, SECURITY
// ERASE UNIT) wants one, and is gone when the erase ends. It is fixed so
// that a drive whose erase was cut off can be unlocked again.
const erasePassword = "slipway"

// SecureErase has the drive erase itself: NVMe by a format with user data erase,
// others by ATA's security feature. The error satisfies errors.NotSupported if the drive
// cannot; the disk is then untouched. It never quietly does less than was asked.
func (m *Manager) SecureErase(ctx context.Context, i Info) error {
	if err := m.CheckWipe(i); err != nil {
		return err
	}
	if strings.HasPrefix(i.Name, "nvme") {
		return errors.Annotatef(m.run(ctx, "nvme", "format", i.Path, "--ses=1", "--force"), "cannot erase %s", i)
	}
	out, err := m.cmd.Run(ctx, "hdparm", "-I", i.Path)
	if err != nil {
		return errors.NotSupportedf("secure erase of %s (hdparm: %v)", i, err)
	}
	state := ataSecurity(string(out))
	switch {
	case !state["supported"]:
		return errors.NotSupportedf("secure erase of %s, which has no ATA security,", i)
	case state["frozen"]:
		return errors.NotSupportedf("secure erase of %s, frozen by the firmware until its power is cycled,", i)
	}
	if !state["enabled"] {
		if err := m.run(ctx, "hdparm", "--user-master", "u", "--security-set-pass", erasePassword, i.Path); err != nil {
			return errors.Annotatef(err, "cannot set up erase of %s", i)
		}
	}
	if err := m.run(ctx, "hdparm", "--user-master", "u", "--security-erase", erasePassword, i.Path); err != nil {
		if e := m.run(ctx, "hdparm", "--user-master", "u", "--security-disable", erasePassword, i.Path); e != nil {
			logger.Errorf("%s stays locked with the password %q: %v", i, erasePassword, e)
		}
		return errors.Annotatef(err, "cannot erase %s", i)
	}
	return nil
}

// ataSecurity reads the Security section of hdparm -I. A line there is a word,
// or "not" and a word.
func ataSecurity(text string) map[string]bool {
	state := map[string]bool{}
	inside := false
	for _, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Security:"):
			inside = true
		case inside && line != "" && line[0] != ' ' && line[0] != '\t':
			inside = false
		case inside && len(w) == 1:
			state[strings.TrimSuffix(w[0], ":")] = true
		}
	}
	return state
}
