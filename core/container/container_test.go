package container_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
)

func TestParse(t *testing.T) {
	for _, typ := range container.Types() {
		if got, err := container.Parse(string(typ)); err != nil || got != typ {
			t.Errorf("Parse(%q) = %q, %v", typ, got, err)
		}
	}
	for _, text := range []string{"", "foo", "LXD", "none"} {
		_, err := container.Parse(text)
		if !errors.Is(err, errors.NotValid) || err.Error() != `invalid container type "`+text+`"` {
			t.Errorf("Parse(%q) = %v, want invalid container type", text, err)
		}
	}
	if got, err := container.ParseOrNone("none"); err != nil || got != container.None {
		t.Errorf("ParseOrNone(none) = %q, %v", got, err)
	}
	if _, err := container.ParseOrNone("foo"); err == nil {
		t.Error("ParseOrNone(foo) succeeded")
	}
}
