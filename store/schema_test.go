package store_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

func TestNewSchemaRefusesBadDeclarations(t *testing.T) {
	for _, c := range []struct {
		name        string
		collections []store.Collection
	}{
		{"no name", []store.Collection{{}}},
		{"twice", []store.Collection{{Name: "a"}, {Name: "a"}}},
		{"index twice", []store.Collection{{Name: "a", Indexes: []string{"i", "i"}}}},
		{"index without a name", []store.Collection{{Name: "a", Indexes: []string{""}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := store.NewSchema(c.collections); !errors.Is(err, errors.NotValid) {
				t.Errorf("NewSchema = %v, want not valid", err)
			}
		})
	}
}

func TestSchemaChecksBatches(t *testing.T) {
	schema, err := store.NewSchema([]store.Collection{{Name: "a", Indexes: []string{"i"}}})
	if err != nil {
		t.Fatal(err)
	}
	k, l := store.Key{Collection: "a", ID: "1"}, store.Key{Collection: "a", ID: "2"}
	for _, c := range []struct {
		name string
		ops  []store.Op
		want string // "" for a good batch
	}{
		{"empty", nil, ""},
		{"good", []store.Op{store.Insert(k, nil, map[string]string{"i": "v"}), store.Remove(l, 3)}, ""},
		{"no id", []store.Op{store.AssertMissing(store.Key{Collection: "a"})}, "document of a without an id not valid"},
		{"undeclared collection", []store.Op{store.Insert(store.Key{Collection: "b", ID: "1"}, nil, nil)}, `undeclared collection "b" not valid`},
		{"undeclared index", []store.Op{store.Insert(k, nil, map[string]string{"j": "v"})}, `undeclared index "j" of collection a not valid`},
		{"twice", []store.Op{store.Insert(k, nil, nil), store.Assert(k, 1)}, `batch that names a "1" twice not valid`},
		{"no kind", []store.Op{{Key: k}}, `operation 0 of a "1" not valid`},
		{"no revision", []store.Op{store.Replace(k, 0, nil, nil)}, `replace of a "1" at revision 0 not valid`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := schema.CheckOps(c.ops)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errors.NotValid) || err.Error() != c.want) {
				t.Errorf("CheckOps = %v, want %q", err, c.want)
			}
		})
	}
}

func TestSchemaChecksQueries(t *testing.T) {
	schema, err := store.NewSchema([]store.Collection{{Name: "a", Indexes: []string{"i"}}})
	if err != nil {
		t.Fatal(err)
	}
	good := []store.Query{{Collection: "a"}, {Collection: "a", Prefix: "p", Limit: 3}, {Collection: "a", Index: "i", Value: "v"}}
	for _, q := range good {
		if err := schema.CheckQuery(q); err != nil {
			t.Errorf("CheckQuery(%+v) = %v, want nil", q, err)
		}
	}
	bad := []store.Query{{}, {Collection: "b"}, {Collection: "a", Index: "j"}, {Collection: "a", Value: "v"}, {Collection: "a", Limit: -1}}
	for _, q := range bad {
		if err := schema.CheckQuery(q); !errors.Is(err, errors.NotValid) {
			t.Errorf("CheckQuery(%+v) = %v, want not valid", q, err)
		}
	}
}
