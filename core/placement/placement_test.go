package placement_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/placement"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, scope, directive string
	}{
		{"", "", ""},
		{"3", "#", "3"},
		{"#:3", "#", "3"},
		{"0/lxd/1", "#", "0/lxd/1"},
		{"lxd", "lxd", ""},
		{"kvm:3", "kvm", "3"},
		{"lxd:0/lxd/1", "lxd", "0/lxd/1"},
		{"zone=z1", "", "zone=z1"},
	} {
		want := placement.Placement{Scope: c.scope, Directive: c.directive}
		got, err := placement.Parse(c.text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", c.text, got, err, want)
		}
		if again, err := placement.Parse(got.String()); err != nil || again != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", got, again, err, want)
		}
		if got.IsZero() != (c.text == "") {
			t.Errorf("IsZero(%q) = %v", c.text, got.IsZero())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"foo":     `placement "foo" is neither a machine nor a container type`,
		"01":      `placement "01" is neither a machine nor a container type`,
		"none":    `placement "none" is neither a machine nor a container type`,
		"foo:1":   `unknown container type "foo" in placement "foo:1"`,
		"ssh:h":   `unknown container type "ssh" in placement "ssh:h"`,
		"lxd:":    `invalid value "" for "lxd" scope: expected machine-id`,
		"lxd:x":   `invalid value "x" for "lxd" scope: expected machine-id`,
		"zone=":   `placement "zone=" is malformed`,
		"=z":      `placement "=z" is malformed`,
		"zone= z": `placement "zone= z" is malformed`,
	} {
		_, err := placement.Parse(text)
		if !errors.Is(err, errors.NotValid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %s", text, err, want)
		}
	}
}

func TestZone(t *testing.T) {
	if z, ok := placement.Zone("zone=z1"); !ok || z != "z1" {
		t.Errorf("Zone = %q, %v", z, ok)
	}
	if _, ok := placement.Zone("node=z1"); ok {
		t.Error("Zone found a zone in node=z1")
	}
}
