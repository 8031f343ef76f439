package media

import (
	"bytes"
	"debug/pe"
	"encoding/binary"

	"github.com/juju/errors"
)

// Offsets in a PE32+ header (Microsoft PE Format), from the PE signature.
const (
	peSections     = 6  // number of sections
	peOptionalSize = 20 // size of the optional header
	peOptional     = 24 // the optional header
	peFileAlign    = peOptional + 36
	peSectionAlign = peOptional + 32
	peImageSize    = peOptional + 56
	peHeadersSize  = peOptional + 60
	peHeader       = 40 // bytes of one section header
	// peData is a section that is initialized data and may be read.
	peData = 0x40000040
)

// UKI joins a kernel, its command line and an initramfs to stub, the EFI program that
// starts them (of systemd-boot): a unified kernel image after the UAPI group's
// specification. The error satisfies errors.NotValid if stub is not such a program.
func UKI(stub, kernel, initrd []byte, commandLine string) ([]byte, error) {
	f, err := pe.NewFile(bytes.NewReader(stub))
	if err != nil {
		return nil, errors.NewNotValid(err, "EFI stub")
	}
	if _, ok := f.OptionalHeader.(*pe.OptionalHeader64); !ok || len(f.Sections) == 0 {
		return nil, errors.NotValidf("EFI stub")
	}
	le := binary.LittleEndian
	out := bytes.Clone(stub)
	at := int(le.Uint32(out[0x3c:]))
	h := out[at:]
	fileAlign, sectionAlign := le.Uint32(h[peFileAlign:]), le.Uint32(h[peSectionAlign:])
	table := at + peOptional + int(le.Uint16(h[peOptionalSize:])) + peHeader*len(f.Sections)
	parts := []struct {
		name string
		data []byte
	}{
		{".osrel", []byte("ID=slipway\nNAME=\"Slipway installer\"\nPRETTY_NAME=\"Slipway installer\"\n")},
		{".cmdline", append([]byte(commandLine), 0)},
		{".initrd", initrd},
		{".linux", kernel},
	}
	if table+peHeader*len(parts) > int(le.Uint32(h[peHeadersSize:])) || fileAlign == 0 || sectionAlign == 0 {
		return nil, errors.NotValidf("EFI stub without room for sections")
	}
	var address uint32
	for _, s := range f.Sections {
		address = max(address, s.VirtualAddress+max(s.VirtualSize, s.Size))
	}
	for i, p := range parts {
		address = align(address, max(sectionAlign, 4096))
		out = append(out, make([]byte, int(align(uint32(len(out)), fileAlign))-len(out))...)
		s := out[table+peHeader*i:]
		clear(s[:peHeader])
		copy(s, p.name)
		le.PutUint32(s[8:], uint32(len(p.data)))
		le.PutUint32(s[12:], address)
		le.PutUint32(s[16:], align(uint32(len(p.data)), fileAlign))
		le.PutUint32(s[20:], uint32(len(out)))
		le.PutUint32(s[36:], peData)
		out = append(out, p.data...)
		out = append(out, make([]byte, int(align(uint32(len(p.data)), fileAlign))-len(p.data))...)
		address += uint32(len(p.data))
	}
	h = out[at:]
	le.PutUint16(h[peSections:], uint16(len(f.Sections)+len(parts)))
	le.PutUint32(h[peImageSize:], align(address, sectionAlign))
	return out, nil
}

// align rounds n up to a multiple of to.
func align(n, to uint32) uint32 { return (n + to - 1) / to * to }
