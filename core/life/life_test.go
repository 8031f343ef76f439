package life_test

import (
	"testing"

	"github.com/slipway-project/slipway/core/life"
)

func TestLivesAreInOrder(t *testing.T) {
	order := []life.Value{life.Alive, life.Dying, life.Dead}
	for i, a := range order {
		if !a.Valid() {
			t.Errorf("%s is not valid", a)
		}
		for j, b := range order {
			if got := a.Before(b); got != (i < j) {
				t.Errorf("%s.Before(%s) = %v", a, b, got)
			}
		}
	}
	for _, v := range []life.Value{"", "undead"} {
		if v.Valid() {
			t.Errorf("%q is valid", v)
		}
	}
}
