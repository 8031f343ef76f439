package arch_test

import (
	"testing"

	"github.com/slipway-project/slipway/core/arch"
)

func TestValid(t *testing.T) {
	for _, name := range arch.All() {
		if !arch.Valid(name) {
			t.Errorf("%s is not valid", name)
		}
	}
	for _, name := range []string{"", "x86_64", "AMD64", "123.45"} {
		if arch.Valid(name) {
			t.Errorf("%q is valid", name)
		}
	}
	arch.All()[0] = "changed"
	if !arch.Valid(arch.AMD64) {
		t.Error("a caller can change what is known")
	}
}
