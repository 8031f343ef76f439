package mongotest

import (
	"strings"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// updated applies an update to a document. desc, for an update by operators,
// says what has changed, as change streams report it; it is nil for a
// replacement.
func updated(old, u bson.D) (doc, desc bson.D, err *cmdError) {
	if len(u) == 0 || !strings.HasPrefix(u[0].K, "$") {
		id := get(old, "_id")
		if v, ok := u.Get("_id"); ok && bson.Compare(v, id) != 0 {
			return nil, nil, failf(codeImmutableField, "the _id field cannot be changed")
		}
		return append(bson.New("_id", id), u.Without("_id")...), nil, nil
	}
	doc = old
	set, unset := bson.New(), bson.A{}
	for _, op := range u {
		fields, _ := op.V.(bson.D)
		for _, f := range fields {
			before, had := lookup(doc, f.K)
			v, change, err := operate(op.K, f.V, before, had)
			if err != nil {
				return nil, nil, err
			}
			switch {
			case !change:
			case op.K == "$unset":
				doc = without(doc, f.K)
				unset = append(unset, f.K)
			default:
				doc = assign(doc, f.K, v)
				set = append(set, bson.E{K: f.K, V: v})
			}
		}
	}
	if bson.Compare(get(doc, "_id"), get(old, "_id")) != 0 {
		return nil, nil, failf(codeImmutableField, "the _id field cannot be changed")
	}
	return doc, bson.New("updatedFields", set, "removedFields", unset, "truncatedArrays", bson.A{}), nil
}

// operate returns what one operator makes of one field, and whether it changes
// it.
func operate(op string, arg, before any, had bool) (any, bool, *cmdError) {
	switch op {
	case "$set":
		return arg, !had || bson.Compare(arg, before) != 0, nil
	case "$unset":
		return nil, had, nil
	case "$setOnInsert":
		return nil, false, nil
	case "$max":
		return arg, !had || bson.Compare(arg, before) > 0, nil
	case "$min":
		return arg, !had || bson.Compare(arg, before) < 0, nil
	case "$inc":
		x, xok := bson.Integer(before)
		y, yok := bson.Integer(arg)
		switch {
		case !had:
			return arg, true, nil
		case !xok || !yok:
			return nil, false, failf(codeNotImplemented, "the double increments whole numbers only")
		}
		_, small := before.(int32)
		_, step := arg.(int32)
		if sum := x + y; small && step && sum == int64(int32(sum)) {
			return int32(sum), y != 0, nil
		}
		return x + y, y != 0, nil
	}
	return nil, false, failf(codeNotImplemented, "the double knows no update operator %s", op)
}

// assign returns a copy of d with v at a dotted path.
func assign(d bson.D, path string, v any) bson.D {
	head, rest, more := strings.Cut(path, ".")
	out := append(bson.D(nil), d...)
	if more {
		in, _ := get(d, head).(bson.D)
		v = assign(in, rest, v)
	}
	return out.Set(head, v)
}

// upsertDoc returns the document that an update without a match inserts: the
// equalities of the filter, then the update.
func upsertDoc(q, u bson.D) (bson.D, *cmdError) {
	if len(u) == 0 || !strings.HasPrefix(u[0].K, "$") {
		doc := u
		if _, ok := u.Get("_id"); !ok {
			id, ok := q.Get("_id")
			if !ok {
				return nil, failf(codeNotImplemented, "the double wants an _id in an upsert")
			}
			doc = append(bson.New("_id", id), u...)
		}
		return doc, nil
	}
	doc := bson.New()
	for _, e := range q {
		if ops, ok := e.V.(bson.D); ok && len(ops) > 0 && strings.HasPrefix(ops[0].K, "$") {
			continue
		}
		if !strings.HasPrefix(e.K, "$") {
			doc = assign(doc, e.K, e.V)
		}
	}
	doc, _, err := updated(doc, u)
	if err != nil {
		return nil, err
	}
	onInsert, _ := get(u, "$setOnInsert").(bson.D)
	for _, f := range onInsert {
		doc = assign(doc, f.K, f.V)
	}
	if _, ok := doc.Get("_id"); !ok {
		return nil, failf(codeNotImplemented, "the double wants an _id in an upsert")
	}
	return doc, nil
}
