package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Content is what a partition holds, told by its magic numbers.
type Content struct {
	Type  string // ext4, xfs, btrfs, vfat, swap, lvm, raid, luks, or "" for unknown
	Label string
	UUID  string // as it stands in an fstab
}

// Probe looks at what begins at the start of r. Anything unreadable is
// unknown. The magic numbers and places are those of the file systems' own headers.
func Probe(r io.ReaderAt) Content {
	head := make([]byte, 68<<10)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF || n < 4096 {
		return Content{}
	}
	le := binary.LittleEndian
	at := func(off int, magic string) bool {
		return off+len(magic) <= len(head) && string(head[off:off+len(magic)]) == magic
	}
	switch {
	case at(0, "LUKS\xba\xbe"):
		return Content{Type: "luks"}
	case at(0, "XFSB"):
		return Content{"xfs", text(head[108:120]), uuidText(head[32:48])}
	case le.Uint16(head[1024+56:]) == 0xEF53:
		return Content{extVersion(head[1024:]), text(head[1024+120 : 1024+136]), uuidText(head[1024+104 : 1024+120])}
	case at(65536+64, "_BHRfS_M"):
		return Content{"btrfs", text(head[65536+299 : 65536+299+256]), uuidText(head[65536+32 : 65536+48])}
	case at(4096-10, "SWAPSPACE2"):
		return Content{"swap", text(head[1024+28 : 1024+44]), uuidText(head[1024+12 : 1024+28])}
	case le.Uint32(head[4096:]) == 0xa92b4efc || le.Uint32(head) == 0xa92b4efc:
		return Content{Type: "raid"}
	case head[510] == 0x55 && head[511] == 0xAA && (at(82, "FAT32   ") || at(54, "FAT16   ") || at(54, "FAT12   ")):
		return fat(head)
	}
	for sector := range 4 {
		if at(sector*512, "LABELONE") {
			return Content{Type: "lvm"}
		}
	}
	return Content{}
}

// extVersion tells ext2, ext3 and ext4 apart by their feature bits.
func extVersion(super []byte) string {
	compat, incompat := binary.LittleEndian.Uint32(super[92:]), binary.LittleEndian.Uint32(super[96:])
	switch {
	case incompat&0x2C0 != 0: // extents, 64bit, flex_bg
		return "ext4"
	case compat&0x4 != 0: // has_journal
		return "ext3"
	}
	return "ext2"
}

// fat reads the serial number and label of a FAT file system.
func fat(head []byte) Content {
	serial, label := 39, 43
	if string(head[82:90]) == "FAT32   " {
		serial, label = 67, 71
	}
	id := binary.LittleEndian.Uint32(head[serial:])
	l := text(head[label : label+11])
	if l == "NO NAME" {
		l = ""
	}
	return Content{"vfat", l, fmt.Sprintf("%04X-%04X", id>>16, id&0xffff)}
}

// text returns a padded field up to its first zero.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
}

// uuidText prints 16 bytes as a UUID.
func uuidText(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
