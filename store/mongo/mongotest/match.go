package mongotest

import (
	"strconv"
	"strings"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// matcher says whether a document is wanted.
type matcher func(bson.D) bool

// compile makes a matcher of a filter. It refuses operators that it does not
// know.
func compile(filter bson.D) (matcher, *cmdError) {
	var all []matcher
	for _, e := range filter {
		m, err := clause(e)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return func(d bson.D) bool {
		for _, m := range all {
			if !m(d) {
				return false
			}
		}
		return true
	}, nil
}

// clause compiles one element of a filter.
func clause(e bson.E) (matcher, *cmdError) {
	switch e.K {
	case "$and", "$or", "$nor":
		return logical(e)
	case "$expr", "$where", "$text", "$jsonSchema":
		return nil, failf(codeNotImplemented, "the double knows no %s", e.K)
	}
	if strings.HasPrefix(e.K, "$") {
		return nil, failf(codeBadValue, "unknown top level operator: %s", e.K)
	}
	ops, ok := e.V.(bson.D)
	if !ok || len(ops) == 0 || !strings.HasPrefix(ops[0].K, "$") {
		return field(e.K, func(v any, ok bool) bool { return equal(v, e.V) }, e.V == nil), nil
	}
	var all []matcher
	for _, op := range ops {
		m, err := operator(e.K, op)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return func(d bson.D) bool {
		for _, m := range all {
			if !m(d) {
				return false
			}
		}
		return true
	}, nil
}

func logical(e bson.E) (matcher, *cmdError) {
	list, _ := e.V.(bson.A)
	var ms []matcher
	for _, v := range list {
		d, _ := v.(bson.D)
		m, err := compile(d)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return func(d bson.D) bool {
		for _, m := range ms {
			if m(d) == (e.K != "$and") { // decides
				return e.K == "$or"
			}
		}
		return e.K != "$or"
	}, nil
}

// operator compiles a condition such as {$gt: 5} on a field.
func operator(path string, op bson.E) (matcher, *cmdError) {
	ordered := func(want func(c int) bool) matcher {
		return field(path, func(v any, ok bool) bool {
			return ok && bson.Compare(v, op.V) == 0 && want(0) || ok && sameClass(v, op.V) && want(bson.Compare(v, op.V))
		}, false)
	}
	switch op.K {
	case "$eq":
		return field(path, func(v any, _ bool) bool { return equal(v, op.V) }, op.V == nil), nil
	case "$ne":
		eq := field(path, func(v any, _ bool) bool { return equal(v, op.V) }, op.V == nil)
		return func(d bson.D) bool { return !eq(d) }, nil
	case "$gt":
		return ordered(func(c int) bool { return c > 0 }), nil
	case "$gte":
		return ordered(func(c int) bool { return c >= 0 }), nil
	case "$lt":
		return ordered(func(c int) bool { return c < 0 }), nil
	case "$lte":
		return ordered(func(c int) bool { return c <= 0 }), nil
	case "$in", "$nin":
		list, _ := op.V.(bson.A)
		wanted := make(map[string]bool, len(list))
		for _, x := range list {
			wanted[idKey(x)] = true
		}
		in := field(path, func(v any, _ bool) bool { return wanted[idKey(v)] }, wanted[idKey(nil)])
		if op.K == "$in" {
			return in, nil
		}
		return func(d bson.D) bool { return !in(d) }, nil
	case "$exists":
		want := op.V == true || bson.Float(op.V) != 0
		return func(d bson.D) bool {
			_, ok := lookup(d, path)
			return ok == want
		}, nil
	}
	return nil, failf(codeNotImplemented, "the double knows no %s", op.K)
}

// equal compares by worth.
func equal(a, b any) bool { return bson.Compare(a, b) == 0 }

// sameClass reports whether two values are of comparable types.
func sameClass(a, b any) bool {
	switch a.(type) {
	case string:
		_, ok := b.(string)
		return ok
	case bson.D:
		_, ok := b.(bson.D)
		return ok
	case bool:
		_, ok := b.(bool)
		return ok
	case bson.Timestamp:
		_, ok := b.(bson.Timestamp)
		return ok
	case bson.DateTime:
		_, ok := b.(bson.DateTime)
		return ok
	case bson.ObjectID:
		_, ok := b.(bson.ObjectID)
		return ok
	}
	_, an := bson.Integer(a)
	_, af := a.(float64)
	_, bn := bson.Integer(b)
	_, bf := b.(float64)
	return (an || af) && (bn || bf)
}

// field makes a matcher of a test on the values at a path: the value itself
// and, if it is an array, each of its elements. missing is the outcome when
// there is no such field.
func field(path string, test func(v any, ok bool) bool, missing bool) matcher {
	return func(d bson.D) bool {
		values := gather(nil, d, path)
		for _, v := range values {
			if test(v, true) {
				return true
			}
			if a, ok := v.(bson.A); ok {
				for _, x := range a {
					if test(x, true) {
						return true
					}
				}
			}
		}
		return len(values) == 0 && missing
	}
}

// gather appends the values at a dotted path, through arrays of documents.
func gather(out []any, v any, path string) []any {
	head, rest, more := strings.Cut(path, ".")
	switch v := v.(type) {
	case bson.D:
		x, ok := v.Get(head)
		if !ok {
			return out
		}
		if !more {
			return append(out, x)
		}
		return gather(out, x, rest)
	case bson.A:
		if i, err := strconv.Atoi(head); err == nil && i >= 0 && i < len(v) {
			if !more {
				return append(out, v[i])
			}
			out = gather(out, v[i], rest)
		}
		for _, x := range v {
			if d, ok := x.(bson.D); ok {
				out = gather(out, d, path)
			}
		}
	}
	return out
}

// lookup returns the first value at a dotted path.
func lookup(d bson.D, path string) (any, bool) {
	vs := gather(nil, d, path)
	if len(vs) == 0 {
		return nil, false
	}
	return vs[0], true
}

// project keeps, or leaves out, the fields that spec names.
func project(d bson.D, spec bson.D) (bson.D, *cmdError) {
	including, withID := false, true
	for _, e := range spec {
		on := e.V == true || bson.Float(e.V) != 0
		switch {
		case e.K == "_id":
			withID = on
		case on:
			including = true
		}
		if _, isExpr := e.V.(bson.D); isExpr || strings.HasPrefix(e.K, "$") {
			return nil, failf(codeNotImplemented, "the double projects no expressions")
		}
	}
	out := bson.New()
	if !including {
		out = d
		for _, e := range spec {
			if e.V != true && bson.Float(e.V) == 0 {
				out = without(out, e.K)
			}
		}
		return out, nil
	}
	for _, e := range d {
		if e.K == "_id" && withID {
			out = append(out, e)
			continue
		}
		var sub bson.D
		for _, s := range spec {
			head, rest, more := strings.Cut(s.K, ".")
			if head != e.K || e.K == "_id" {
				continue
			}
			if !more {
				out = append(out, e)
				sub = nil
				break
			}
			sub = append(sub, bson.E{K: rest, V: s.V})
		}
		if in, ok := e.V.(bson.D); ok && sub != nil {
			p, err := project(in, append(sub, bson.E{K: "_id", V: false}))
			if err != nil {
				return nil, err
			}
			out = append(out, bson.E{K: e.K, V: p})
		}
	}
	return out, nil
}

// without returns a copy of d that lacks a dotted path.
func without(d bson.D, path string) bson.D {
	head, rest, more := strings.Cut(path, ".")
	out := make(bson.D, 0, len(d))
	for _, e := range d {
		if e.K == head {
			in, ok := e.V.(bson.D)
			if !more || !ok {
				if !more {
					continue
				}
			} else {
				e.V = without(in, rest)
			}
		}
		out = append(out, e)
	}
	return out
}
