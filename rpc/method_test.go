package rpc_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/rpc"
)

type (
	noError      struct{}
	noResult     struct{}
	scalarParams struct{}
	twoParams    struct{}
	scalarResult struct{}
	variadic     struct{}
	lateContext  struct{}
	good         struct{}
)

func (noError) M() echo                            { return echo{} }
func (noResult) M()                                {}
func (scalarParams) M(string) error                { return nil }
func (twoParams) M(echo, echo) error               { return nil }
func (scalarResult) M() (string, error)            { return "", nil }
func (variadic) M(...echo) error                   { return nil }
func (lateContext) M(echo, context.Context) error  { return nil }
func (good) A() error                              { return nil }
func (good) B(context.Context) error               { return nil }
func (good) C(echo) (echo, error)                  { return echo{}, nil }
func (good) D(context.Context, echo) (echo, error) { return echo{}, nil }

func TestMethodsOfRefusesOtherShapes(t *testing.T) {
	for _, v := range []any{noError{}, noResult{}, scalarParams{}, twoParams{}, scalarResult{}, variadic{}, lateContext{}} {
		typ := reflect.TypeOf(v)
		t.Run(typ.Name(), func(t *testing.T) {
			if _, err := rpc.MethodsOf(typ); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "method M of ") {
				t.Errorf("MethodsOf(%v) = %v, want the method refused by name", typ, err)
			}
		})
	}
}

func TestMethodsOfTakesTheDocumentedShapes(t *testing.T) {
	m, err := rpc.MethodsOf(reflect.TypeFor[good]())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Names(), " "); got != "A B C D" {
		t.Errorf("Names() = %s, want A B C D", got)
	}
	d, _ := m.Get("D")
	if d.Params() != reflect.TypeFor[echo]() || d.Result() != reflect.TypeFor[echo]() {
		t.Errorf("D takes %v and gives %v, want echo of both", d.Params(), d.Result())
	}
	if _, ok := m.Get("E"); ok {
		t.Error("Get of a missing method found one")
	}
}

// anything has a field of each kind.
type anything struct {
	Flag   bool              `json:"flag"`
	Count  int32             `json:"count"`
	Ratio  float64           `json:"ratio"`
	Text   string            `json:"text"`
	Bytes  []byte            `json:"bytes"`
	Many   []string          `json:"many"`
	Named  map[string]string `json:"named"`
	Inside *struct {
		Deep []struct{ Text string } `json:"deep"`
	} `json:"inside"`
}

type taker struct{}

func (taker) Take(anything) error { return nil }

func TestWrongTypesAreToldInTermsOfJSON(t *testing.T) {
	methods, err := rpc.MethodsOf(reflect.TypeFor[taker]())
	if err != nil {
		t.Fatal(err)
	}
	m, _ := methods.Get("Take")
	for params, want := range map[string]string{
		`7`:                                `parameters: a number instead of an object`,
		`["a"]`:                            `parameters: an array instead of an object`,
		`{"flag":1}`:                       `parameter "flag": a number instead of a boolean`,
		`{"count":"a"}`:                    `parameter "count": a string instead of a whole number of 32 bits`,
		`{"count":1.5}`:                    `parameter "count": a number instead of a whole number of 32 bits`,
		`{"count":3000000000}`:             `parameter "count": a number instead of a whole number of 32 bits`,
		`{"ratio":true}`:                   `parameter "ratio": a boolean instead of a number`,
		`{"text":{}}`:                      `parameter "text": an object instead of a string`,
		`{"bytes":1}`:                      `parameter "bytes": a number instead of a string`,
		`{"many":"a"}`:                     `parameter "many": a string instead of an array`,
		`{"named":[]}`:                     `parameter "named": an array instead of an object`,
		`{"inside":"a"}`:                   `parameter "inside": a string instead of an object`,
		`{"inside":{"deep":[{"Text":1}]}}`: `parameter "inside.deep.Text": a number instead of a string`,
	} {
		if _, err := m.Decode([]byte(params)); err == nil || err.Error() != want {
			t.Errorf("Decode(%s) = %v, want %s", params, err, want)
		}
	}
	if _, err := m.Decode([]byte(`{"count":-7,"inside":null,"more":1}`)); err != nil {
		t.Errorf("Decode = %v", err)
	}
}
