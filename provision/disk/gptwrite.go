package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

const (
	// alignment is where partitions begin and end: a mebibyte suits every drive.
	alignment = 1 << 20
	// gptEntries is how many entries a table made here has, of 128 bytes each.
	gptEntries = 128
)

// NewTable lays parts out on a disk of size bytes. random gives the GUIDs. The
// error satisfies errors.NotValid if the parts do not fit.
func NewTable(parts []config.Partition, size, sector int64, random io.Reader) (*Table, error) {
	t := &Table{Kind: GPT, SectorSize: sector, entries: gptEntries, entrySize: 128}
	var err error
	if t.disk, err = newGUID(random); err != nil {
		return nil, err
	}
	t.DiskGUID = t.disk.String()
	at, end := int64(alignment), (size-alignment)/alignment*alignment
	for i, p := range parts {
		e := Entry{Number: i + 1, Start: at, Size: int64(p.SizeMiB) << 20, Name: p.Label}
		if p.SizeMiB == 0 {
			e.Size = end - at
		}
		if p.SizeMiB > uint64(size>>20) || e.Size < alignment || e.Start+e.Size > end {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("partition %q of the layout ends beyond the disk of %d MiB", p.Label, size>>20))
		}
		if e.typ, err = parseGUID(typeOf(p)); err != nil {
			return nil, err
		}
		if e.id, err = newGUID(random); err != nil {
			return nil, err
		}
		e.Type, e.GUID = e.typ.String(), e.id.String()
		t.Partitions = append(t.Partitions, e)
		at = e.Start + e.Size
	}
	return t, nil
}

// typeOf returns a partition's type: its own, or what its file system suggests.
func typeOf(p config.Partition) string {
	switch {
	case p.TypeGUID != "":
		return strings.ToUpper(p.TypeGUID)
	case p.FileSystem == "vfat" && (p.MountPoint == "/boot/efi" || p.MountPoint == "/efi" || p.MountPoint == ""):
		return TypeESP
	case p.FileSystem == "swap":
		return TypeSwap
	case p.FileSystem == "":
		return TypeLVM
	}
	return TypeLinux
}

// newGUID makes a version 4 GUID (RFC 9562).
func newGUID(random io.Reader) (guidBytes, error) {
	var g guidBytes
	if _, err := io.ReadFull(random, g[:]); err != nil {
		return g, errors.Annotate(err, "cannot make GUID")
	}
	g[7] = g[7]&0x0f | 0x40
	g[8] = g[8]&0x3f | 0x80
	return g, nil
}

// Write writes a GPT to a disk of size bytes: backup first, then primary, then
// the protective MBR, so that a cut leaves one valid copy or the old table.
func (t *Table) Write(w io.WriterAt, size int64) error {
	if t.Kind != GPT {
		return errors.NotSupportedf("writing a table of kind %q", t.Kind)
	}
	s := t.SectorSize
	raw := t.raw()
	arraySectors := (int64(len(raw)) + s - 1) / s
	last := size/s - 1
	first := max(2+arraySectors, alignment/s)
	usable := last - arraySectors - 1
	for _, p := range t.Partitions {
		if p.Start < (2+arraySectors)*s || p.Start+p.Size > (usable+1)*s {
			return errors.NewNotValid(nil, fmt.Sprintf("partition %d lies where the table of the disk belongs", p.Number))
		}
	}
	header := func(self, other, array int64) []byte {
		le := binary.LittleEndian
		h := make([]byte, s)
		copy(h, "EFI PART")
		le.PutUint32(h[8:], 0x00010000)
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], uint64(self))
		le.PutUint64(h[32:], uint64(other))
		le.PutUint64(h[40:], uint64(min(first, t.firstUsed())))
		le.PutUint64(h[48:], uint64(usable))
		copy(h[56:], t.disk[:])
		le.PutUint64(h[72:], uint64(array))
		le.PutUint32(h[80:], t.entries)
		le.PutUint32(h[84:], t.entrySize)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(raw))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	for _, piece := range []struct {
		at   int64
		data []byte
	}{
		{(last - arraySectors) * s, raw},
		{last * s, header(last, 1, last-arraySectors)},
		{2 * s, raw},
		{s, header(1, last, 2)},
		{446, protective(size / s)},
	} {
		if _, err := w.WriteAt(piece.data, piece.at); err != nil {
			return errors.Annotate(err, "cannot write partition table")
		}
	}
	t.alternate = last
	return nil
}

// firstUsed returns the first sector of the first partition.
func (t *Table) firstUsed() int64 {
	first := int64(1) << 62
	for _, p := range t.Partitions {
		first = min(first, p.Start/t.SectorSize)
	}
	return first
}

// raw returns the entries as they lie on disk.
func (t *Table) raw() []byte {
	le := binary.LittleEndian
	raw := make([]byte, int(t.entries)*int(t.entrySize))
	for _, p := range t.Partitions {
		b := raw[(p.Number-1)*int(t.entrySize):]
		copy(b[0:], p.typ[:])
		copy(b[16:], p.id[:])
		le.PutUint64(b[32:], uint64(p.Start/t.SectorSize))
		le.PutUint64(b[40:], uint64((p.Start+p.Size)/t.SectorSize-1))
		le.PutUint64(b[48:], p.attrs)
		for i, c := range utf16.Encode([]rune(p.Name)) {
			if i < 36 {
				le.PutUint16(b[56+2*i:], c)
			}
		}
	}
	return raw
}

// protective returns the entries and the signature of a protective MBR (UEFI
// 5.2.3); the boot code in front of them is left as it is.
func protective(sectors int64) []byte {
	b := make([]byte, 66)
	copy(b, []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0})
	binary.LittleEndian.PutUint32(b[12:], uint32(min(sectors-1, 0xffffffff)))
	b[64], b[65] = 0x55, 0xaa
	return b
}

// Grow makes partition n reach to the end of a disk of size bytes, or to
// the next partition, and moves the backup of a GPT to where it belongs. It reports
// whether the partition grew. Only what changes is written.
func (t *Table) Grow(d io.WriterAt, n int, size int64) (bool, error) {
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Number != n {
			continue
		}
		if t.Kind == MBR {
			return t.growMBR(d, p, size)
		}
		end := (size - alignment) / alignment * alignment
		for _, q := range t.Partitions {
			if q.Start > p.Start {
				end = min(end, q.Start)
			}
		}
		grew := end > p.Start+p.Size
		if grew {
			p.Size = end - p.Start
		}
		if grew || t.Damaged || t.alternate != size/t.SectorSize-1 {
			return grew, t.Write(d, size)
		}
		return false, nil
	}
	return false, errors.NotFoundf("partition %d", n)
}

// growMBR extends a primary partition that is the last on the disk.
func (t *Table) growMBR(d io.WriterAt, p *Entry, size int64) (bool, error) {
	end := min(size/alignment*alignment, (1<<32-1)*512)
	if p.slot < 0 || !t.isLast(*p) || end <= p.Start+p.Size {
		return false, nil
	}
	p.Size = end - p.Start
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(p.Size/512))
	_, err := d.WriteAt(b[:], int64(446+16*p.slot+12))
	return true, errors.Annotate(err, "cannot write partition table")
}
