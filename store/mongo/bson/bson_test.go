package bson_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// everything holds one value of each type that D names.
func everything() bson.D {
	return bson.D{
		{"double", 1.5}, {"string", "héllo"}, {"doc", bson.D{{"a", int32(1)}}}, {"array", bson.A{"x", int64(2), nil}},
		{"binary", bson.Binary{Subtype: 4, Data: []byte{1, 2, 3}}}, {"oid", bson.ObjectID{1, 2}}, {"bool", true},
		{"date", bson.DateTime(-5)}, {"null", nil}, {"regex", bson.Regex{Pattern: "^a", Options: "i"}},
		{"int32", int32(-7)}, {"timestamp", bson.Timestamp(9)}, {"int64", int64(math.MinInt64)},
		{"decimal", bson.Decimal{1}}, {"min", bson.MinKey{}}, {"max", bson.MaxKey{}}, {"", "empty key"},
	}
}

func TestEveryTypeSurvivesARoundTrip(t *testing.T) {
	raw := bson.Marshal(everything())
	if err := raw.Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := bson.Unmarshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, everything()) {
		t.Errorf("round trip = %v, want %v", got, everything())
	}
}

func TestReadRefusesWhatIsNoDocument(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":          nil,
		"short":          {5, 0, 0},
		"zero length":    {0, 0, 0, 0, 0},
		"longer than it": {6, 0, 0, 0, 0},
		"huge":           {255, 255, 255, 255, 0},
		"no end":         {5, 0, 0, 0, 1},
	} {
		if _, _, err := bson.Read(b); !errors.Is(err, errors.NotValid) {
			t.Errorf("Read of %s: %v, want not valid", name, err)
		}
	}
}

func TestValidateFindsFaultsInside(t *testing.T) {
	deep := bson.D{}
	for range bson.MaxDepth + 1 {
		deep = bson.D{{"d", deep}}
	}
	for name, raw := range map[string]bson.Raw{
		"too deep":            bson.Marshal(deep),
		"unknown type":        bson.Build().Element(0x42, "k", []byte{1}).End(),
		"string too long":     bson.Build().Element(bson.TypeString, "k", []byte{200, 0, 0, 0, 0}).End(),
		"string without end":  bson.Build().Element(bson.TypeString, "k", []byte{1, 0, 0, 0, 9}).End(),
		"string of no bytes":  bson.Build().Element(bson.TypeString, "k", []byte{0, 0, 0, 0}).End(),
		"negative length":     bson.Build().Element(bson.TypeBinary, "k", []byte{255, 255, 255, 255, 0}).End(),
		"short number":        bson.Build().Element(bson.TypeInt64, "k", []byte{1}).End(),
		"open regex":          bson.Build().Element(bson.TypeRegex, "k", []byte{'a'}).End(),
		"faulty inner":        bson.Build().Doc("d", bson.Build().Element(0x42, "k", nil).End()).End(),
		"inner without end":   bson.Build().Element(bson.TypeDocument, "d", []byte{5, 0, 0, 0, 7}).End(),
		"key without end":     {8, 0, 0, 0, 10, 'a', 'b', 0},
		"inner runs past end": bson.Build().Element(bson.TypeDocument, "d", []byte{99, 0, 0, 0, 0}).End(),
	} {
		if name == "key without end" {
			raw[6] = 'b'
		}
		if err := raw.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Validate of %s: %v, want not valid", name, err)
		}
	}
}

func TestLookupAndConversions(t *testing.T) {
	raw := bson.Build().Int32("a", -3).Double("b", 2.9).Double("c", math.NaN()).Str("d", "x").Bool("e", true).Int64s("f", 1, 2).End()
	int := func(key string) int64 {
		e, _ := raw.Lookup(key)
		n, ok := e.Int()
		if !ok {
			return -99
		}
		return n
	}
	if int("a") != -3 || int("b") != 2 || int("c") != -99 || int("d") != -99 {
		t.Errorf("Int of a, b, c, d = %d, %d, %d, %d", int("a"), int("b"), int("c"), int("d"))
	}
	e, _ := raw.Lookup("e")
	if !e.Truth() {
		t.Error("Truth of true = false")
	}
	if _, ok := raw.Lookup("none"); ok {
		t.Error("Lookup found a key that is not there")
	}
	if first, ok := raw.First(); !ok || first.Key != "a" {
		t.Errorf("First = %q, %v", first.Key, ok)
	}
	if more := bson.Extend(raw).Str("g", "y").End(); more.Validate() != nil || !bytes.HasPrefix(more[4:], raw[4:len(raw)-1]) {
		t.Error("Extend lost an element")
	}
}

func TestCompareOrdersAsTheServerDoes(t *testing.T) {
	ascending := []any{
		bson.MinKey{}, nil, int64(math.MinInt64), -1.5, int32(0), 0.5, int64(1) << 53, int64(1)<<53 + 1,
		"", "a", "a\x00", "b", bson.D{}, bson.D{{"a", int32(1)}}, bson.D{{"a", int32(1)}, {"b", nil}}, bson.A{}, bson.A{int32(1)},
		bson.Binary{Data: []byte{9}}, bson.Binary{Data: []byte{1, 1}}, bson.ObjectID{1}, false, true,
		bson.DateTime(1), bson.Timestamp(1), bson.Regex{Pattern: "a"}, bson.MaxKey{},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := bson.Compare(a, b); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
		}
	}
	if bson.Compare(int32(2), 2.0) != 0 {
		t.Error("2 and 2.0 differ")
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(bson.Marshal(everything())))
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, _, err := bson.Read(b)
		if err != nil {
			return
		}
		valid := doc.Validate() == nil
		d, err := bson.Unmarshal(doc)
		if valid && err != nil && !errors.Is(err, errors.NotSupported) {
			t.Fatalf("a valid document does not decode: %v", err)
		}
		if err != nil {
			return
		}
		again, err := bson.Unmarshal(bson.Marshal(d))
		if err != nil {
			t.Fatal(err)
		}
		if bson.Compare(d, again) != 0 {
			t.Fatalf("decoded again = %v, want %v", again, d)
		}
	})
}
