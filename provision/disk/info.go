package disk

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// Info is what sysfs tells of one physical disk.
type Info struct {
	Name       string `json:"name"` // sda
	Path       string `json:"path"` // /dev/sda
	Serial     string `json:"serial,omitempty"`
	WWN        string `json:"wwn,omitempty"` // 0x and 16 digits, or as an NVMe device names itself
	WWNVendor  string `json:"wwn-vendor-extension,omitempty"`
	Model      string `json:"model,omitempty"`
	Vendor     string `json:"vendor,omitempty"`
	HCTL       string `json:"hctl,omitempty"`
	Size       int64  `json:"size"` // bytes
	Rotational bool   `json:"rotational"`
	Removable  bool   `json:"removable,omitempty"` // by its own word, or because it hangs on USB
	ReadOnly   bool   `json:"read-only,omitempty"`
	BootMedium bool   `json:"boot-medium,omitempty"` // carries the installer that is running
}

// String names the disk so that a person finds it in the rack.
func (i Info) String() string {
	serial := i.Serial
	if serial == "" {
		serial = "none"
	}
	return fmt.Sprintf("%s (serial %s, %s, %.1f GB)", i.Path, serial, strings.TrimSpace(i.Vendor+" "+i.Model), float64(i.Size)/1e9)
}

// ID returns the disk's lasting name.
func (i Info) ID() config.DiskID {
	return config.DiskID{Serial: i.Serial, WWN: i.WWN, Name: i.Path}
}

// Is reports whether id names this disk. The device name counts only when the
// id has nothing better.
func (i Info) Is(id config.DiskID) bool {
	switch {
	case id.Serial != "" && id.WWN != "":
		return id.Serial == i.Serial && equalWWN(id.WWN, i.WWN)
	case id.Serial != "":
		return id.Serial == i.Serial
	case id.WWN != "":
		return equalWWN(id.WWN, i.WWN)
	}
	return id.Name != "" && id.Name == i.Path
}

// Named reports whether one entry of keep-disks means this disk: its serial
// number, its WWN with or without extension, its path or its name.
func (i Info) Named(entry string) bool {
	entry = strings.TrimSpace(entry)
	return entry != "" && (entry == i.Serial || equalWWN(entry, i.WWN) || equalWWN(entry, i.WWN+i.WWNVendor) ||
		entry == i.Path || entry == i.Name)
}

// equalWWN compares without regard to case and to the ways of marking hexadecimal.
func equalWWN(a, b string) bool {
	trim := func(s string) string {
		s = strings.ToLower(s)
		for _, p := range []string{"naa.", "eui.", "0x"} {
			s = strings.TrimPrefix(s, p)
		}
		return s
	}
	return trim(a) != "" && trim(a) == trim(b)
}

// notPhysical matches names of block devices that are not disks of the machine:
// virtual ones, optical drives, floppies, the boot partitions of eMMC, and
// the hidden paths of NVMe multipath.
var notPhysical = regexp.MustCompile(`^(loop|sr|ram|zram|dm-|md|zd|nbd|rbd|fd|mmcblk[0-9]+(boot|rpmb)|nvme[0-9]+c[0-9]+n)`)

// hctl matches a SCSI address: host, channel, target, logical unit.
var hctl = regexp.MustCompile(`^\d+:\d+:\d+:\d+$`)

// Disks returns all physical disks, in the order of their names with numbers
// counted as numbers. Disks of size zero (empty card readers) are left out.
func (m *Manager) Disks() ([]Info, error) {
	entries, err := os.ReadDir(filepath.Join(m.sys, "block"))
	if err != nil {
		return nil, errors.Annotate(err, "cannot list disks")
	}
	var out []Info
	for _, e := range entries {
		if notPhysical.MatchString(e.Name()) || m.attr(e.Name(), "hidden") == "1" {
			continue
		}
		if _, err := os.Stat(filepath.Join(m.sys, "block", e.Name(), "device")); err != nil {
			continue
		}
		if i := m.info(e.Name()); i.Size > 0 {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return compareNames(a.Name, b.Name) })
	return out, nil
}

// compareNames puts sdb before sdaa and nvme2n1 before nvme10n1: of two runs of
// digits or of two runs of letters with the same two letters in front, the
// shorter comes first.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		x, y := run(a), run(b)
		if x != y {
			if len(x) != len(y) && (isDigit(x[0]) && isDigit(y[0]) || x[:min(2, len(x))] == y[:min(2, len(y))]) {
				return len(x) - len(y)
			}
			return strings.Compare(x, y)
		}
		a, b = a[len(x):], b[len(y):]
	}
	return len(a) - len(b)
}

// run returns the digits, or the other characters, that s begins with.
func run(s string) string {
	n := 1
	for n < len(s) && isDigit(s[n]) == isDigit(s[0]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// attr returns a trimmed attribute of a block device.
func (m *Manager) attr(name string, parts ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{m.sys, "block", name}, parts...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(b), "\x00"))
}

// info reads one disk. An attribute that cannot be read stays empty, except that
// a disk whose removable attribute is unreadable counts as removable.
func (m *Manager) info(name string) Info {
	sectors, _ := strconv.ParseInt(m.attr(name, "size"), 10, 64)
	i := Info{
		Name: name, Path: "/dev/" + name, Size: sectors * 512,
		Model: m.attr(name, "device", "model"), Vendor: m.attr(name, "device", "vendor"),
		Rotational: m.attr(name, "queue", "rotational") == "1",
		Removable:  m.attr(name, "removable") != "0",
		ReadOnly:   m.attr(name, "ro") == "1",
		Serial:     m.serial(name),
	}
	i.WWN, i.WWNVendor = m.wwn(name)
	if target, err := filepath.EvalSymlinks(filepath.Join(m.sys, "block", name, "device")); err == nil {
		if base := filepath.Base(target); hctl.MatchString(base) {
			i.HCTL = base
		}
		if strings.Contains(target, "/usb") {
			i.Removable = true
		}
	}
	i.BootMedium = m.isBootMedium(i.Path)
	return i
}

// serial returns the serial number: from the device itself (NVMe, virtio, MMC) or
// from page 0x80 of SCSI's vital product data (SPC-5, 7.7.23), which libata also gives.
func (m *Manager) serial(name string) string {
	for _, p := range [][]string{{"serial"}, {"device", "serial"}} {
		if s := m.attr(name, p...); s != "" {
			return s
		}
	}
	b, err := os.ReadFile(filepath.Join(m.sys, "block", name, "device", "vpd_pg80"))
	if err != nil || len(b) < 4 {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(b[4:]), "\x00"))
}

// wwn returns the world wide name and, for NAA type 6, its vendor extension.
func (m *Manager) wwn(name string) (string, string) {
	w := m.attr(name, "wwid")
	if w == "" {
		w = m.attr(name, "device", "wwid")
	}
	digits, ok := strings.CutPrefix(w, "naa.")
	if !ok {
		return w, ""
	}
	if _, err := hex.DecodeString(digits); err != nil || len(digits) < 16 {
		return w, ""
	}
	return "0x" + digits[:16], digits[16:]
}

// BootVolume is how the volume name of an installer's ISO 9660 medium begins.
const BootVolume = "SLIPWAY"

// isBootMedium reports whether the device carries an installer's medium: its
// primary volume descriptor (ECMA-119, 8.4) is at byte 32768.
func (m *Manager) isBootMedium(path string) bool {
	d, err := m.devices.Open(path, false)
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }()
	var b [72]byte
	if _, err := d.ReadAt(b[:], 16*2048); err != nil {
		return false
	}
	return b[0] == 1 && string(b[1:6]) == "CD001" && strings.HasPrefix(string(b[40:72]), BootVolume)
}

// InUse returns the mount point of something on the disk that is mounted, or the word swap, or "".
func (m *Manager) InUse(i Info) (string, error) {
	all, err := m.mounts()
	if err != nil {
		return "", err
	}
	for _, mt := range all {
		if mt.source == i.Path || PartitionNumber(mt.source, i.Path) > 0 {
			return mt.dir, nil
		}
	}
	swaps, err := os.ReadFile(filepath.Join(m.proc, "swaps"))
	if err != nil {
		return "", nil // a kernel without swap
	}
	for _, line := range strings.Split(string(swaps), "\n") {
		if w := strings.Fields(line); len(w) > 0 && (w[0] == i.Path || PartitionNumber(w[0], i.Path) > 0) {
			return "swap", nil
		}
	}
	return "", nil
}
