package bson

import (
	"math"
	"strconv"

	"github.com/juju/errors"
)

// D is a document as Go values, in order. The values are: float64, string, D,
// A, Binary, ObjectID, bool, DateTime, nil, Regex, int32, Timestamp, int64,
// Decimal, MinKey and MaxKey; Marshal takes int as well.
type D []E

// E is one element of a D.
type E struct {
	K string
	V any
}

// A is an array.
type A []any

// Binary is a value of bytes with its subtype (0 generic, 4 UUID).
type Binary struct {
	Subtype byte
	Data    []byte
}

// The values that are more than a Go type of their own says.
type (
	ObjectID  [12]byte
	DateTime  int64  // milliseconds since 1970
	Timestamp uint64 // seconds since 1970 in the upper half, an ordinal in the lower
	Decimal   [16]byte
	MinKey    struct{}
	MaxKey    struct{}
	Regex     struct{ Pattern, Options string }
)

// Get returns the value at key, and whether there is one.
func (d D) Get(key string) (any, bool) {
	for _, e := range d {
		if e.K == key {
			return e.V, true
		}
	}
	return nil, false
}

// Set replaces the value at key or adds it, and returns the document.
func (d D) Set(key string, v any) D {
	for i := range d {
		if d[i].K == key {
			d[i].V = v
			return d
		}
	}
	return append(d, E{key, v})
}

// Without returns a copy that lacks key.
func (d D) Without(key string) D {
	out := make(D, 0, len(d))
	for _, e := range d {
		if e.K != key {
			out = append(out, e)
		}
	}
	return out
}

// Unmarshal decodes a document and all that is in it. Binary values share the
// document's memory. It returns an error satisfying errors.NotValid for a
// malformed document and errors.NotSupported for a deprecated type.
func Unmarshal(r Raw) (D, error) { return unmarshal(r, MaxDepth) }

func unmarshal(r Raw, depth int) (D, error) {
	if depth == 0 {
		return nil, errors.NotValidf("BSON document nested deeper than %d levels", MaxDepth)
	}
	d := D{}
	var inner error
	err := r.Each(func(e Element) bool {
		var v any
		if v, inner = decode(e, depth); inner == nil {
			d = append(d, E{e.Key, v})
		}
		return inner == nil
	})
	if err == nil {
		err = inner
	}
	return d, err
}

func decode(e Element, depth int) (any, error) {
	v := e.Value
	switch e.Type {
	case TypeDouble:
		return math.Float64frombits(le.Uint64(v)), nil
	case TypeString:
		return string(v[4 : len(v)-1]), nil
	case TypeDocument:
		return unmarshal(Raw(v), depth-1)
	case TypeArray:
		d, err := unmarshal(Raw(v), depth-1)
		a := make(A, len(d))
		for i := range d {
			a[i] = d[i].V
		}
		return a, err
	case TypeBinary:
		return Binary{v[4], v[5:]}, nil
	case TypeObjectID:
		return ObjectID(v), nil
	case TypeBool:
		return v[0] != 0, nil
	case TypeDateTime:
		return DateTime(le.Uint64(v)), nil
	case TypeNull, TypeUndefined:
		return nil, nil
	case TypeInt32:
		return int32(le.Uint32(v)), nil
	case TypeTimestamp:
		return Timestamp(le.Uint64(v)), nil
	case TypeInt64:
		return int64(le.Uint64(v)), nil
	case TypeDecimal:
		return Decimal(v), nil
	case TypeMinKey:
		return MinKey{}, nil
	case TypeMaxKey:
		return MaxKey{}, nil
	case TypeRegex:
		var parts [2]string
		for i, start := 0, 0; i < 2; i++ {
			end := start
			for v[end] != 0 {
				end++
			}
			parts[i], start = string(v[start:end]), end+1
		}
		return Regex{parts[0], parts[1]}, nil
	}
	return nil, errors.NotSupportedf("BSON type %#x", byte(e.Type))
}

// Marshal encodes a document. It panics on a value of another Go type than D
// names: such a value is a fault of the program.
func Marshal(d D) Raw {
	b := Build()
	for _, e := range d {
		b.Value(e.K, e.V)
	}
	return b.End()
}

// Value adds a value of one of the types that D names.
func (d *Builder) Value(k string, v any) *Builder {
	switch v := v.(type) {
	case float64:
		return d.Double(k, v)
	case string:
		return d.Str(k, v)
	case D:
		return d.Doc(k, Marshal(v))
	case Raw:
		return d.Doc(k, v)
	case A:
		a := Build()
		for i, x := range v {
			a.Value(strconv.Itoa(i), x)
		}
		return d.Element(TypeArray, k, a.End())
	case Binary:
		d.key(TypeBinary, k)
		d.b = le.AppendUint32(d.b, uint32(len(v.Data)))
		d.b = append(append(d.b, v.Subtype), v.Data...)
		return d
	case ObjectID:
		return d.Element(TypeObjectID, k, v[:])
	case bool:
		return d.Bool(k, v)
	case DateTime:
		return d.Element(TypeDateTime, k, le.AppendUint64(nil, uint64(v)))
	case nil:
		return d.Null(k)
	case int32:
		return d.Int32(k, v)
	case int:
		return d.Int64(k, int64(v))
	case int64:
		return d.Int64(k, v)
	case Timestamp:
		return d.Element(TypeTimestamp, k, le.AppendUint64(nil, uint64(v)))
	case Decimal:
		return d.Element(TypeDecimal, k, v[:])
	case MinKey:
		return d.Element(TypeMinKey, k, nil)
	case MaxKey:
		return d.Element(TypeMaxKey, k, nil)
	case Regex:
		d.key(TypeRegex, k)
		d.b = append(append(append(append(d.b, v.Pattern...), 0), v.Options...), 0)
		return d
	}
	panic(errors.Errorf("bson: cannot encode a %T", v))
}

// New returns a document made of keys and values in turn. It panics unless
// there is a value for each key and the keys are strings.
func New(pairs ...any) D {
	d := make(D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, E{pairs[i].(string), pairs[i+1]})
	}
	return d
}
