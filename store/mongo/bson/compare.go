package bson

import (
	"bytes"
	"cmp"
	"strings"
)

// Compare orders two values as MongoDB sorts them: by type class first, then
// by value; strings by their bytes, numbers of all types by their worth. See
// "Comparison/Sort Order" in MongoDB's manual.
func Compare(a, b any) int {
	if c := cmp.Compare(class(a), class(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case string:
		return strings.Compare(x, b.(string))
	case D:
		return compareDocs(x, b.(D))
	case A:
		return compareArrays(x, b.(A))
	case Binary:
		y := b.(Binary)
		return cmp.Or(cmp.Compare(len(x.Data), len(y.Data)), cmp.Compare(x.Subtype, y.Subtype), bytes.Compare(x.Data, y.Data))
	case ObjectID:
		y := b.(ObjectID)
		return bytes.Compare(x[:], y[:])
	case bool:
		switch {
		case x == b.(bool):
			return 0
		case x:
			return 1
		}
		return -1
	case DateTime:
		return cmp.Compare(x, b.(DateTime))
	case Timestamp:
		return cmp.Compare(x, b.(Timestamp))
	case Regex:
		y := b.(Regex)
		return cmp.Or(strings.Compare(x.Pattern, y.Pattern), strings.Compare(x.Options, y.Options))
	case Decimal:
		if y, ok := b.(Decimal); ok {
			return bytes.Compare(x[:], y[:])
		}
	}
	return compareNumbers(a, b)
}

// class is the place of a value's type in the order of types.
func class(v any) int {
	switch v.(type) {
	case MinKey:
		return 1
	case nil:
		return 5
	case int, int32, int64, float64, Decimal:
		return 10
	case string:
		return 15
	case D:
		return 20
	case A:
		return 25
	case Binary:
		return 30
	case ObjectID:
		return 35
	case bool:
		return 40
	case DateTime:
		return 45
	case Timestamp:
		return 47
	case Regex:
		return 50
	case MaxKey:
		return 127
	}
	return 60
}

func compareDocs(x, y D) int {
	for i := range min(len(x), len(y)) {
		c := cmp.Or(cmp.Compare(class(x[i].V), class(y[i].V)), strings.Compare(x[i].K, y[i].K), Compare(x[i].V, y[i].V))
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func compareArrays(x, y A) int {
	for i := range min(len(x), len(y)) {
		if c := Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func compareNumbers(a, b any) int {
	x, xok := Integer(a)
	y, yok := Integer(b)
	if xok && yok {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(Float(a), Float(b))
}

// Integer returns the value of a whole-number type, and whether v is one.
func Integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Float returns the value of any number but a Decimal, and zero for all else.
func Float(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	n, _ := Integer(v)
	return float64(n)
}
