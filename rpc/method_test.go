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
