package mongotest

// Inside the package: filters and updates are not exported.

import (
	"reflect"
	"testing"
	"time"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

func TestFilters(t *testing.T) {
	doc := bson.New("_id", "a", "n", int32(5), "s", "text", "null", nil, "tags", bson.A{"x", "y"},
		"in", bson.New("deep", bson.New("er", 2.5)), "list", bson.A{bson.New("k", int32(1)), bson.New("k", int32(2))})
	op := func(pairs ...any) bson.D { return bson.New(pairs...) }
	for _, c := range []struct {
		name   string
		filter bson.D
		want   bool
	}{
		{"nothing", op(), true},
		{"equal", op("n", int64(5)), true},
		{"equal across number types", op("n", 5.0), true},
		{"unequal", op("n", int32(6)), false},
		{"an element of an array", op("tags", "y"), true},
		{"a whole array", op("tags", bson.A{"x", "y"}), true},
		{"no element of an array", op("tags", "z"), false},
		{"null matches null", op("null", nil), true},
		{"null matches what is missing", op("none", nil), true},
		{"null does not match a value", op("n", nil), false},
		{"a dotted path", op("in.deep.er", 2.5), true},
		{"a path through an array", op("list.k", int32(2)), true},
		{"a path by place", op("list.1.k", int32(2)), true},
		{"two conditions", op("n", op("$gt", int32(4), "$lt", int32(6))), true},
		{"two conditions, one fails", op("n", op("$gt", int32(4), "$lt", int32(5))), false},
		{"greater or equal", op("n", op("$gte", int32(5))), true},
		{"less or equal", op("n", op("$lte", int32(4))), false},
		{"types are not compared", op("s", op("$gt", int32(1))), false},
		{"$ne", op("n", op("$ne", int32(5))), false},
		{"$ne of what is missing", op("none", op("$ne", int32(5))), true},
		{"$in", op("n", op("$in", bson.A{int32(1), 5.0})), true},
		{"$in with null and a missing field", op("none", op("$in", bson.A{nil})), true},
		{"$nin", op("n", op("$nin", bson.A{int32(5)})), false},
		{"$exists", op("null", op("$exists", true)), true},
		{"$exists false", op("none", op("$exists", false)), true},
		{"$or", op("$or", bson.A{op("n", int32(1)), op("s", "text")}), true},
		{"$or of none", op("$or", bson.A{op("n", int32(1)), op("s", "no")}), false},
		{"$and", op("$and", bson.A{op("n", int32(5)), op("s", "no")}), false},
		{"$nor", op("$nor", bson.A{op("n", int32(1)), op("s", "no")}), true},
	} {
		m, err := compile(c.filter)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := m(doc); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, bad := range []bson.D{op("$where", "x"), op("n", op("$regex", "x")), op("$bogus", int32(1))} {
		if _, err := compile(bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func TestUpdates(t *testing.T) {
	old := bson.New("_id", "a", "n", int32(5), "in", bson.New("x", "y"))
	for _, c := range []struct {
		name   string
		update bson.D
		want   bson.D // nil: refused
	}{
		{"replacement", bson.New("n", int32(1)), bson.New("_id", "a", "n", int32(1))},
		{"replacement with the id", bson.New("_id", "a"), bson.New("_id", "a")},
		{"replacement with another id", bson.New("_id", "b"), nil},
		{"$set", bson.New("$set", bson.New("in.z", true)), bson.New("_id", "a", "n", int32(5), "in", bson.New("x", "y", "z", true))},
		{"$set of the id", bson.New("$set", bson.New("_id", "b")), nil},
		{"$unset", bson.New("$unset", bson.New("in.x", "")), bson.New("_id", "a", "n", int32(5), "in", bson.New())},
		{"$inc", bson.New("$inc", bson.New("n", int32(2), "m", int64(1))), bson.New("_id", "a", "n", int32(7), "in", bson.New("x", "y"), "m", int64(1))},
		{"$inc past 32 bits", bson.New("$inc", bson.New("n", int32(2147483647))), bson.New("_id", "a", "n", int64(2147483652), "in", bson.New("x", "y"))},
		{"$max", bson.New("$max", bson.New("n", int32(9))), bson.New("_id", "a", "n", int32(9), "in", bson.New("x", "y"))},
		{"$min keeps", bson.New("$min", bson.New("n", int32(9))), old},
		{"$setOnInsert", bson.New("$setOnInsert", bson.New("n", int32(9))), old},
		{"unknown", bson.New("$push", bson.New("n", int32(9))), nil},
	} {
		got, _, err := updated(old, c.update)
		switch {
		case c.want == nil && err == nil:
			t.Errorf("%s was taken: %v", c.name, got)
		case c.want != nil && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != nil && !reflect.DeepEqual(got, c.want):
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	doc, err := upsertDoc(bson.New("_id", "x", "n", bson.New("$lt", int32(1)), "k", "v"),
		bson.New("$inc", bson.New("c", int32(1)), "$setOnInsert", bson.New("s", true)))
	if want := bson.New("_id", "x", "k", "v", "c", int32(1), "s", true); err != nil || !reflect.DeepEqual(doc, want) {
		t.Errorf("upsert = %v, %v, want %v", doc, err, want)
	}
}

func TestProjections(t *testing.T) {
	doc := bson.New("_id", "a", "n", int32(1), "in", bson.New("x", int32(2), "y", int32(3)))
	for _, c := range []struct{ spec, want bson.D }{
		{bson.New("n", int32(1)), bson.New("_id", "a", "n", int32(1))},
		{bson.New("in.x", int32(1), "_id", int32(0)), bson.New("in", bson.New("x", int32(2)))},
		{bson.New("in.x", int32(0), "n", false), bson.New("_id", "a", "in", bson.New("y", int32(3)))},
	} {
		if got, err := project(doc, c.spec); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("project(%v) = %v, %v, want %v", c.spec, got, err, c.want)
		}
	}
}

func TestVersionsAreForgotten(t *testing.T) {
	e := newEngine(100, time.Minute)
	c := e.coll("db.c", true)
	r := c.record("busy")
	for i := range int32(3000) {
		if err := e.put(c, r, nil, "replace", bson.New("_id", "busy", "n", i), nil); err != nil {
			t.Fatal(err)
		}
		gone := c.record(i)
		if err := e.put(c, gone, nil, "insert", bson.New("_id", i), nil); err != nil {
			t.Fatal(err)
		}
		if err := e.put(c, gone, nil, "delete", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.versions); n > 2*window {
		t.Errorf("%d versions of one document are kept", n)
	}
	if n := len(c.sorted); n > 2*window {
		t.Errorf("%d records are kept, of one document", n)
	}
	if n := len(e.log.entries); n > 200 {
		t.Errorf("%d changes are kept, want at most 200", n)
	}
}
