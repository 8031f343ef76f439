package bson

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/juju/errors"
)

// Type is the type byte of an element.
type Type byte

// The types of BSON 1.1.
const (
	TypeDouble    Type = 0x01
	TypeString    Type = 0x02
	TypeDocument  Type = 0x03
	TypeArray     Type = 0x04
	TypeBinary    Type = 0x05
	TypeUndefined Type = 0x06
	TypeObjectID  Type = 0x07
	TypeBool      Type = 0x08
	TypeDateTime  Type = 0x09
	TypeNull      Type = 0x0a
	TypeRegex     Type = 0x0b
	TypeDBPointer Type = 0x0c
	TypeCode      Type = 0x0d
	TypeSymbol    Type = 0x0e
	TypeScope     Type = 0x0f
	TypeInt32     Type = 0x10
	TypeTimestamp Type = 0x11
	TypeInt64     Type = 0x12
	TypeDecimal   Type = 0x13
	TypeMinKey    Type = 0xff
	TypeMaxKey    Type = 0x7f
)

// MaxDepth is the deepest nesting that Validate accepts, the limit of MongoDB
// servers ("nested depth for BSON documents").
const MaxDepth = 180

// Raw is an encoded document. Read returns ones whose outer length is right;
// what is inside is checked as it is read.
type Raw []byte

// Element is one element of a document. Its value shares the document's memory.
type Element struct {
	Type  Type
	Key   string
	Value []byte
}

var le = binary.LittleEndian

// errMalformed is what every broken document gives.
var errMalformed = errors.NotValidf("BSON document")

// Read returns the document at the start of b and the bytes after it. It
// returns an error satisfying errors.NotValid if there is no whole document.
func Read(b []byte) (doc Raw, rest []byte, err error) {
	if len(b) < 5 {
		return nil, nil, errMalformed
	}
	n := le.Uint32(b)
	if n < 5 || uint64(n) > uint64(len(b)) || b[n-1] != 0 {
		return nil, nil, errMalformed
	}
	return Raw(b[:n:n]), b[n:], nil
}

// Each calls f with each element, in order, until f returns false. It returns
// an error satisfying errors.NotValid at the first malformed element.
func (r Raw) Each(f func(Element) bool) error {
	if len(r) < 5 {
		return errMalformed
	}
	for b := r[4 : len(r)-1]; len(b) > 0; {
		i := bytes.IndexByte(b[1:], 0)
		if i < 0 {
			return errMalformed
		}
		rest := b[i+2:]
		n, ok := valueLen(Type(b[0]), rest)
		if !ok {
			return errMalformed
		}
		if !f(Element{Type(b[0]), string(b[1 : i+1]), rest[:n:n]}) {
			return nil
		}
		b = rest[n:]
	}
	return nil
}

// valueLen returns how many of b's bytes the value at its start takes.
func valueLen(t Type, b []byte) (int, bool) {
	n := 0
	switch t {
	case TypeNull, TypeUndefined, TypeMinKey, TypeMaxKey:
	case TypeBool:
		n = 1
	case TypeInt32:
		n = 4
	case TypeDouble, TypeDateTime, TypeTimestamp, TypeInt64:
		n = 8
	case TypeObjectID:
		n = 12
	case TypeDecimal:
		n = 16
	case TypeRegex:
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return 0, false
		}
		j := bytes.IndexByte(b[i+1:], 0)
		return i + j + 2, j >= 0
	default:
		return sizedLen(t, b)
	}
	return n, n <= len(b)
}

// sizedLen is valueLen for the types that start with a length.
func sizedLen(t Type, b []byte) (int, bool) {
	if len(b) < 4 {
		return 0, false
	}
	size := uint64(le.Uint32(b))
	least := uint64(1) // of size: the NUL of a string
	total := 4 + size
	switch t {
	case TypeString, TypeCode, TypeSymbol:
	case TypeDocument, TypeArray, TypeScope:
		least, total = 5, size
	case TypeBinary:
		least, total = 0, 5+size
	case TypeDBPointer:
		total = 4 + size + 12
	default:
		return 0, false
	}
	if size < least || total > uint64(len(b)) {
		return 0, false
	}
	switch t {
	case TypeString, TypeCode, TypeSymbol, TypeDocument, TypeArray, TypeScope:
		if b[total-1] != 0 {
			return 0, false
		}
	}
	return int(total), true
}

// Validate checks the whole document, nested ones too. It returns an error
// satisfying errors.NotValid.
func (r Raw) Validate() error { return r.validate(MaxDepth) }

func (r Raw) validate(depth int) error {
	if depth == 0 {
		return errors.NotValidf("BSON document nested deeper than %d levels", MaxDepth)
	}
	var inner error
	err := r.Each(func(e Element) bool {
		if d, ok := e.Doc(); ok {
			inner = d.validate(depth - 1)
		}
		return inner == nil
	})
	if err == nil {
		err = inner
	}
	return err
}

// First returns the first element, which names the command in a command
// document.
func (r Raw) First() (e Element, ok bool) {
	_ = r.Each(func(first Element) bool {
		e, ok = first, true
		return false
	})
	return e, ok
}

// Lookup returns the element with this key; in a malformed document, only if
// it stands before the fault.
func (r Raw) Lookup(key string) (found Element, ok bool) {
	_ = r.Each(func(e Element) bool {
		if e.Key == key {
			found, ok = e, true
		}
		return !ok
	})
	return found, ok
}

// Doc returns the value of a document or an array.
func (e Element) Doc() (Raw, bool) {
	if e.Type != TypeDocument && e.Type != TypeArray || len(e.Value) < 5 {
		return nil, false
	}
	return Raw(e.Value), true
}

// Str returns the value of a string.
func (e Element) Str() (string, bool) {
	if e.Type != TypeString || len(e.Value) < 5 {
		return "", false
	}
	return string(e.Value[4 : len(e.Value)-1]), true
}

// Int returns the value of any number, without its fraction.
func (e Element) Int() (int64, bool) {
	switch e.Type {
	case TypeInt32:
		return int64(int32(le.Uint32(e.Value))), true
	case TypeInt64:
		return int64(le.Uint64(e.Value)), true
	case TypeDouble:
		f := math.Float64frombits(le.Uint64(e.Value))
		if !(math.Abs(f) < 1<<62) {
			return 0, false
		}
		return int64(f), true
	}
	return 0, false
}

// Truth reports whether the value is true or a number other than zero.
func (e Element) Truth() bool {
	if e.Type == TypeBool {
		return e.Value[0] != 0
	}
	n, ok := e.Int()
	return ok && n != 0
}
