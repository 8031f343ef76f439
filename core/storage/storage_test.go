package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/storage"
)

func TestCheck(t *testing.T) {
	many := make(map[string]any)
	for i := range storage.MaxAttrs + 1 {
		many[fmt.Sprint(i)] = true
	}
	for _, test := range []struct {
		pool storage.Pool
		bad  string
	}{
		{storage.Pool{Name: "fast", Provider: "static"}, ""},
		{storage.Pool{Name: "Fast-2", Provider: "ebs", Attrs: map[string]any{"type": "ssd", "iops": 3, "size": 1.5, "encrypted": true}}, ""},
		{storage.Pool{Provider: "static"}, `pool name ""`},
		{storage.Pool{Name: "2fast", Provider: "static"}, `pool name "2fast"`},
		{storage.Pool{Name: "a b", Provider: "static"}, `pool name "a b"`},
		{storage.Pool{Name: strings.Repeat("a", 129), Provider: "static"}, "pool name"},
		{storage.Pool{Name: "fast"}, `type of storage ""`},
		{storage.Pool{Name: "fast", Provider: "a/b"}, `type of storage "a/b"`},
		{storage.Pool{Name: "fast", Provider: "static", Attrs: map[string]any{"": "x"}}, "empty name"},
		{storage.Pool{Name: "fast", Provider: "static", Attrs: map[string]any{"x": []any{1}}}, `setting "x"`},
		{storage.Pool{Name: "fast", Provider: "static", Attrs: many}, "65 settings"},
		{storage.Pool{Name: "fast", Provider: "static", Attrs: map[string]any{"x": strings.Repeat("y", storage.MaxText)}}, "4097 bytes"},
	} {
		err := test.pool.Check()
		switch {
		case test.bad == "" && err != nil:
			t.Errorf("Check(%+v) = %v, want it valid", test.pool, err)
		case test.bad != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.bad)):
			t.Errorf("Check(%.80v) = %v, want NotValid with %q", test.pool, err, test.bad)
		}
	}
}

func TestIsDynamic(t *testing.T) {
	for name, want := range map[string]bool{"loop": true, "rootfs": true, "tmpfs": true, "static": false, "": false} {
		if got := storage.IsDynamic(name); got != want {
			t.Errorf("IsDynamic(%q) = %v", name, got)
		}
	}
}
