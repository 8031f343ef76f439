package media

import (
	"encoding/binary"

	"github.com/juju/errors"
)

// StandIn returns an EFI program that is the installer's to a controller, which makes media
// of it for every host, and to imitations of machines. It starts nothing. The program that
// really installs comes from Initrd and UKI, and needs a kernel.
func StandIn() ([]byte, error) {
	room, _ := bootRoom()
	program, err := UKI(leastProgram(), nil, room, "")
	return program, errors.Annotate(err, "cannot make stand-in of the installer")
}

// leastProgram is the least PE32+ file that UKI takes, for amd64: headers, and one
// section with nothing in it (Microsoft PE Format).
func leastProgram() []byte {
	const header, section, headersSize, size = 0x80, 0x200, 0x400, 0x600
	b := make([]byte, size)
	le := binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], header)
	h := b[header:]
	copy(h, "PE\x00\x00\x64\x86")
	le.PutUint16(h[peSections:], 1)
	le.PutUint16(h[peOptionalSize:], 240)
	le.PutUint16(h[peOptional:], 0x20b) // PE32+
	le.PutUint32(h[peSectionAlign:], 0x1000)
	le.PutUint32(h[peFileAlign:], section)
	le.PutUint32(h[peImageSize:], 0x2000)
	le.PutUint32(h[peHeadersSize:], headersSize)
	le.PutUint32(h[peOptional+108:], 16) // data directories
	s := h[peOptional+240:]
	copy(s, ".text")
	le.PutUint32(s[8:], 1)
	le.PutUint32(s[12:], 0x1000)
	le.PutUint32(s[16:], section)
	le.PutUint32(s[20:], headersSize)
	return b
}
