package bson

import (
	"math"
	"strconv"
)

// Builder makes a document, element by element. Its methods return it, so that
// calls can be chained. Keys must hold no NUL.
type Builder struct{ b []byte }

// Build returns an empty builder.
func Build() *Builder { return &Builder{make([]byte, 4, 128)} }

// Extend returns a builder that starts with the elements of doc, copied.
func Extend(doc Raw) *Builder {
	b := make([]byte, len(doc)-1, len(doc)+64)
	copy(b, doc)
	return &Builder{b}
}

func (d *Builder) key(t Type, k string) {
	d.b = append(append(append(d.b, byte(t)), k...), 0)
}

// Element adds an element with its encoded value.
func (d *Builder) Element(t Type, k string, value []byte) *Builder {
	d.key(t, k)
	d.b = append(d.b, value...)
	return d
}

// Str adds a string.
func (d *Builder) Str(k, v string) *Builder {
	d.key(TypeString, k)
	d.b = le.AppendUint32(d.b, uint32(len(v)+1))
	d.b = append(append(d.b, v...), 0)
	return d
}

// Int32 adds a number.
func (d *Builder) Int32(k string, v int32) *Builder {
	d.key(TypeInt32, k)
	d.b = le.AppendUint32(d.b, uint32(v))
	return d
}

// Int64 adds a number.
func (d *Builder) Int64(k string, v int64) *Builder {
	d.key(TypeInt64, k)
	d.b = le.AppendUint64(d.b, uint64(v))
	return d
}

// Double adds a number.
func (d *Builder) Double(k string, v float64) *Builder {
	d.key(TypeDouble, k)
	d.b = le.AppendUint64(d.b, math.Float64bits(v))
	return d
}

// Bool adds a truth value.
func (d *Builder) Bool(k string, v bool) *Builder {
	d.key(TypeBool, k)
	if v {
		d.b = append(d.b, 1)
	} else {
		d.b = append(d.b, 0)
	}
	return d
}

// Null adds a null.
func (d *Builder) Null(k string) *Builder {
	d.key(TypeNull, k)
	return d
}

// Doc adds a document.
func (d *Builder) Doc(k string, v Raw) *Builder { return d.Element(TypeDocument, k, v) }

// Docs adds an array of documents.
func (d *Builder) Docs(k string, docs []Raw) *Builder {
	a := Build()
	for i, v := range docs {
		a.Doc(strconv.Itoa(i), v)
	}
	return d.Element(TypeArray, k, a.End())
}

// Int64s adds an array of numbers.
func (d *Builder) Int64s(k string, vs ...int64) *Builder {
	a := Build()
	for i, v := range vs {
		a.Int64(strconv.Itoa(i), v)
	}
	return d.Element(TypeArray, k, a.End())
}

// End returns the document. The builder must not be used after it.
func (d *Builder) End() Raw {
	d.b = append(d.b, 0)
	le.PutUint32(d.b, uint32(len(d.b)))
	return Raw(d.b)
}
