package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/juju/errors"
)

// Kinds of partition table.
const (
	GPT = "gpt"
	MBR = "mbr"
)

// Types of partition in a GPT, as the UEFI specification (5.3.3) and the
// Discoverable Partitions Specification give them.
const (
	TypeESP       = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
	TypeLinux     = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	TypeRootAMD64 = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
	TypeRootARM64 = "B921B045-1DF0-41C3-AF44-4C6F280D3FAE"
	TypeXBOOTLDR  = "BC13C2FF-59E6-4262-A352-B275FD6F7172"
	TypeLVM       = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
	TypeSwap      = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
)

// Bounds on what is believed of a table: outside text.
const (
	maxEntries  = 1024
	maxEntry    = 4096
	maxLogicals = 60
)

// Table is a partition table.
type Table struct {
	Kind       string // GPT, MBR, or "" for none
	SectorSize int64
	DiskGUID   string // of a GPT
	Partitions []Entry
	// Damaged says that the primary GPT was not valid and the backup was read.
	Damaged bool

	disk      guidBytes
	entrySize uint32
	entries   uint32
	alternate int64 // sector of the backup header as the table has it
}

// Entry is one partition. Start and Size are in bytes.
type Entry struct {
	Number int
	Start  int64
	Size   int64
	Type   string // GUID in capitals; for an MBR two hexadecimal digits
	GUID   string // of the partition; for an MBR ""
	Name   string

	typ, id guidBytes
	attrs   uint64
	slot    int // of a primary MBR partition, from 0; -1 for logical ones
}

// guidBytes is a GUID as it lies on disk: the first three fields little endian.
type guidBytes [16]byte

func (g guidBytes) String() string {
	return fmt.Sprintf("%08X-%04X-%04X-%04X-%012X", binary.LittleEndian.Uint32(g[0:]), binary.LittleEndian.Uint16(g[4:]),
		binary.LittleEndian.Uint16(g[6:]), g[8:10], g[10:16])
}

// parseGUID reads the form that String prints.
func parseGUID(s string) (guidBytes, error) {
	var g guidBytes
	var a uint32
	var b, c uint16
	var d, e uint64
	if n, err := fmt.Sscanf(s, "%08X-%04X-%04X-%04X-%012X", &a, &b, &c, &d, &e); err != nil || n != 5 || len(s) != 36 {
		return g, errors.NotValidf("GUID %q", s)
	}
	binary.LittleEndian.PutUint32(g[0:], a)
	binary.LittleEndian.PutUint16(g[4:], b)
	binary.LittleEndian.PutUint16(g[6:], c)
	binary.BigEndian.PutUint64(g[8:], d<<48|e)
	return g, nil
}

// ReadTable reads the partition table of a disk of size bytes. A disk without a
// table gives an empty Kind and no error; a table that contradicts itself gives an
// error satisfying errors.NotValid.
func ReadTable(r io.ReaderAt, size int64) (*Table, error) {
	mbr := make([]byte, 512)
	if size < 2*512 {
		return &Table{SectorSize: 512}, nil
	}
	if _, err := r.ReadAt(mbr, 0); err != nil {
		return nil, errors.Annotate(err, "cannot read first sector")
	}
	for _, sector := range []int64{512, 4096} {
		t, err := readGPT(r, size, sector, 1)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, errors.NotFound) {
			if t, err := readGPT(r, size, sector, size/sector-1); err == nil {
				t.Damaged = true
				return t, nil
			}
			return nil, err
		}
	}
	if mbr[510] != 0x55 || mbr[511] != 0xAA {
		return &Table{SectorSize: 512}, nil
	}
	return readMBR(r, size, mbr)
}

// readGPT reads the header at sector lba and its entries. The error satisfies
// errors.NotFound if there is no header.
func readGPT(r io.ReaderAt, size, sector, lba int64) (*Table, error) {
	h := make([]byte, 92)
	if (lba+1)*sector > size {
		return nil, errors.NotFoundf("GPT header")
	}
	if _, err := r.ReadAt(h, lba*sector); err != nil {
		return nil, errors.Annotate(err, "cannot read GPT header")
	}
	if string(h[:8]) != "EFI PART" {
		return nil, errors.NotFoundf("GPT header")
	}
	le := binary.LittleEndian
	length := le.Uint32(h[12:])
	if length < 92 || int64(length) > sector {
		return nil, errors.NotValidf("GPT header of %d bytes", length)
	}
	full := make([]byte, length)
	if _, err := r.ReadAt(full, lba*sector); err != nil {
		return nil, errors.Annotate(err, "cannot read GPT header")
	}
	sum := le.Uint32(full[16:])
	le.PutUint32(full[16:], 0)
	if crc32.ChecksumIEEE(full) != sum || int64(le.Uint64(h[24:])) != lba {
		return nil, errors.NotValidf("GPT header with a wrong checksum or place")
	}
	t := &Table{Kind: GPT, SectorSize: sector, disk: guidBytes(h[56:72]), entries: le.Uint32(h[80:]), entrySize: le.Uint32(h[84:]), alternate: int64(le.Uint64(h[32:]))}
	t.DiskGUID = t.disk.String()
	if t.entries > maxEntries || t.entrySize < 128 || t.entrySize > maxEntry || t.entrySize%128 != 0 {
		return nil, errors.NotValidf("GPT of %d entries of %d bytes", t.entries, t.entrySize)
	}
	raw := make([]byte, int64(t.entries)*int64(t.entrySize))
	at := le.Uint64(h[72:])
	if at < 2 || at > uint64(size/sector) || int64(at)*sector+int64(len(raw)) > size {
		return nil, errors.NotValidf("GPT entries at sector %d", at)
	}
	if _, err := r.ReadAt(raw, int64(at)*sector); err != nil {
		return nil, errors.Annotate(err, "cannot read GPT entries")
	}
	if crc32.ChecksumIEEE(raw) != le.Uint32(h[88:]) {
		return nil, errors.NotValidf("GPT entries with a wrong checksum")
	}
	return t, t.parse(raw, size)
}

// parse reads the entries of a GPT.
func (t *Table) parse(raw []byte, size int64) error {
	le := binary.LittleEndian
	for i := range int(t.entries) {
		b := raw[i*int(t.entrySize):]
		e := Entry{Number: i + 1, typ: guidBytes(b[0:16]), id: guidBytes(b[16:32]), attrs: le.Uint64(b[48:])}
		if e.typ == (guidBytes{}) {
			continue
		}
		first, last := le.Uint64(b[32:]), le.Uint64(b[40:])
		if first < 2 || last < first || last >= uint64(size/t.SectorSize) {
			return errors.NotValidf("GPT partition %d from sector %d to %d of %d", e.Number, first, last, size/t.SectorSize)
		}
		e.Start, e.Size = int64(first)*t.SectorSize, int64(last-first+1)*t.SectorSize
		e.Type, e.GUID, e.Name = e.typ.String(), e.id.String(), nameOf(b[56:128])
		t.Partitions = append(t.Partitions, e)
	}
	return nil
}

// nameOf reads a partition's name, 36 UTF-16 units at most.
func nameOf(b []byte) string {
	u := make([]uint16, 0, 36)
	for i := 0; i+1 < len(b); i += 2 {
		c := binary.LittleEndian.Uint16(b[i:])
		if c == 0 {
			break
		}
		u = append(u, c)
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, string(utf16.Decode(u)))
}

// readMBR reads the primary partitions and the chain of logical ones.
func readMBR(r io.ReaderAt, size int64, mbr []byte) (*Table, error) {
	t := &Table{Kind: MBR, SectorSize: 512}
	var extended int64
	for slot := range 4 {
		typ, start, length := mbrEntry(mbr, slot)
		if typ == 0 || length == 0 {
			continue
		}
		if start == 0 || start+length > size/512 {
			return nil, errors.NotValidf("MBR partition %d from sector %d, %d long, of %d", slot+1, start, length, size/512)
		}
		if typ == 0x05 || typ == 0x0f || typ == 0x85 {
			extended = start
			continue
		}
		t.Partitions = append(t.Partitions, Entry{Number: slot + 1, Start: start * 512, Size: length * 512, Type: fmt.Sprintf("%02X", typ), slot: slot})
	}
	next := extended
	for n := 5; next != 0; n++ {
		if n-5 >= maxLogicals {
			return nil, errors.NotValidf("MBR with more than %d logical partitions", maxLogicals)
		}
		b := make([]byte, 512)
		if (next+1)*512 > size {
			return nil, errors.NotValidf("logical partition %d at sector %d", n, next)
		}
		if _, err := r.ReadAt(b, next*512); err != nil {
			return nil, errors.Annotate(err, "cannot read logical partition")
		}
		if b[510] != 0x55 || b[511] != 0xAA {
			break
		}
		if typ, start, length := mbrEntry(b, 0); typ != 0 && length != 0 {
			if (next+start+length)*512 > size {
				return nil, errors.NotValidf("logical partition %d beyond the disk", n)
			}
			t.Partitions = append(t.Partitions, Entry{Number: n, Start: (next + start) * 512, Size: length * 512, Type: fmt.Sprintf("%02X", typ), slot: -1})
		}
		_, start, length := mbrEntry(b, 1)
		if length == 0 {
			break
		}
		next = extended + start
	}
	return t, nil
}

// mbrEntry reads one of the four entries of a boot record: type, first sector, sectors.
func mbrEntry(b []byte, slot int) (byte, int64, int64) {
	e := b[446+16*slot:]
	return e[4], int64(binary.LittleEndian.Uint32(e[8:])), int64(binary.LittleEndian.Uint32(e[12:]))
}

// FindESP returns the EFI system partition, and false if there is none.
func (t *Table) FindESP() (Entry, bool) {
	for _, p := range t.Partitions {
		if p.Type == TypeESP || t.Kind == MBR && p.Type == "EF" {
			return p, true
		}
	}
	return Entry{}, false
}

// After reports whether p is the last partition on the disk by place.
func (t *Table) isLast(p Entry) bool {
	for _, q := range t.Partitions {
		if q.Start > p.Start {
			return false
		}
	}
	return true
}
