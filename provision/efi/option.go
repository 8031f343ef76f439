package efi

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/juju/errors"
)

// Option is a boot entry that loads a file from a partition of a GPT disk. An
// entry of another kind (network, optical drive, shell) has an empty Partition.
type Option struct {
	Label     string
	Active    bool
	Partition string // GUID in capitals
	Number    uint32 // of the partition
	Start     uint64 // in sectors of the disk
	Size      uint64 // in sectors of the disk
	File      string // with backslashes, as firmware has it
}

// attribute bits of a load option.
const active = 1

// Device path node types used here.
const (
	typeMedia  = 4
	subHard    = 1
	subFile    = 4
	typeEnd    = 0x7f
	hardLength = 42
)

// Encode returns the option as a boot variable holds it.
func (o Option) Encode() ([]byte, error) {
	guid, err := encodeGUID(o.Partition)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	hard := []byte{typeMedia, subHard, hardLength, 0}
	hard = le.AppendUint32(hard, o.Number)
	hard = le.AppendUint64(hard, o.Start)
	hard = le.AppendUint64(hard, o.Size)
	hard = append(hard, guid...)
	hard = append(hard, 2, 2) // format GPT, signature GUID
	name := utf16z(o.File)
	path := le.AppendUint16(append(hard, typeMedia, subFile), uint16(4+len(name)))
	path = append(path, name...)
	path = append(path, typeEnd, 0xff, 4, 0)

	var attributes uint32
	if o.Active {
		attributes = active
	}
	out := le.AppendUint32(nil, attributes)
	out = le.AppendUint16(out, uint16(len(path)))
	out = append(out, utf16z(o.Label)...)
	return append(out, path...), nil
}

// Decode reads a boot variable. The error satisfies errors.NotValid.
func Decode(b []byte) (Option, error) {
	le := binary.LittleEndian
	if len(b) < 8 {
		return Option{}, errors.NotValidf("load option of %d bytes", len(b))
	}
	o := Option{Active: le.Uint32(b)&active != 0}
	length := int(le.Uint16(b[4:]))
	label, rest, ok := cutUTF16(b[6:])
	if !ok || length > len(rest) {
		return Option{}, errors.NotValidf("load option with a path of %d bytes", length)
	}
	o.Label = label
	for path := rest[:length]; len(path) >= 4; {
		n := int(le.Uint16(path[2:]))
		if n < 4 || n > len(path) {
			return Option{}, errors.NotValidf("device path node of %d bytes", n)
		}
		node := path[:n]
		switch {
		case node[0] == typeEnd:
			return o, nil
		case node[0] == typeMedia && node[1] == subHard && n == hardLength && node[40] == 2 && node[41] == 2:
			o.Number, o.Start, o.Size = le.Uint32(node[4:]), le.Uint64(node[8:]), le.Uint64(node[16:])
			o.Partition = decodeGUID(node[24:40])
		case node[0] == typeMedia && node[1] == subFile:
			name, _, _ := cutUTF16(append(node[4:n:n], 0, 0))
			o.File += name
		}
		path = path[n:]
	}
	return o, nil
}

// utf16z encodes s with its terminating zero.
func utf16z(s string) []byte {
	var out []byte
	for _, c := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, c)
	}
	return out
}

// cutUTF16 reads up to the terminating zero.
func cutUTF16(b []byte) (string, []byte, bool) {
	var u []uint16
	for i := 0; i+1 < len(b); i += 2 {
		c := binary.LittleEndian.Uint16(b[i:])
		if c == 0 {
			return string(utf16.Decode(u)), b[i+2:], true
		}
		u = append(u, c)
	}
	return string(utf16.Decode(u)), nil, false
}

// encodeGUID gives the 16 bytes of a GUID, its first three fields little endian.
func encodeGUID(s string) ([]byte, error) {
	var a uint32
	var b, c uint16
	var d, e uint64
	if n, err := fmt.Sscanf(strings.ToUpper(s), "%08X-%04X-%04X-%04X-%012X", &a, &b, &c, &d, &e); err != nil || n != 5 || len(s) != 36 {
		return nil, errors.NotValidf("partition GUID %q", s)
	}
	out := binary.LittleEndian.AppendUint32(nil, a)
	out = binary.LittleEndian.AppendUint16(out, b)
	out = binary.LittleEndian.AppendUint16(out, c)
	return binary.BigEndian.AppendUint64(out, d<<48|e), nil
}

func decodeGUID(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08X-%04X-%04X-%04X-%012X", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}
