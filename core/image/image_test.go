package image_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/image"
)

var jammy = image.Metadata{ID: "ami-1", Stream: "released", Region: "r1", Version: "22.04", Series: "jammy", Arch: "amd64", VirtType: "pv", Source: "custom"}

func TestCheck(t *testing.T) {
	if err := jammy.Check(); err != nil {
		t.Errorf("Check() = %v", err)
	}
	for name, spoil := range map[string]func(m *image.Metadata){
		"id": func(m *image.Metadata) { m.ID = "" }, "stream": func(m *image.Metadata) { m.Stream = "" },
		"series": func(m *image.Metadata) { m.Series = "" }, "version": func(m *image.Metadata) { m.Version = "" },
		"arch": func(m *image.Metadata) { m.Arch = "" }, "source": func(m *image.Metadata) { m.Source = "" },
	} {
		m := jammy
		spoil(&m)
		if err := m.Check(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Check() without %s = %v, want it refused", name, err)
		}
	}
}

func TestFilter(t *testing.T) {
	tests := []struct {
		name   string
		filter image.Filter
		want   bool
	}{
		{"any", image.Filter{}, true},
		{"all of it", image.Filter{Region: "r1", Series: []string{"noble", "jammy"}, Arches: []string{"amd64"}, Stream: "released", VirtType: "pv"}, true},
		{"other region", image.Filter{Region: "r2"}, false},
		{"other series", image.Filter{Series: []string{"noble"}}, false},
		{"other arch", image.Filter{Arches: []string{"arm64"}}, false},
		{"other stream", image.Filter{Stream: "daily"}, false},
		{"other kind", image.Filter{VirtType: "hvm"}, false},
	}
	for _, test := range tests {
		if got := test.filter.Match(jammy); got != test.want {
			t.Errorf("%s: Match = %t, want %t", test.name, got, test.want)
		}
	}
	anywhere := jammy
	anywhere.Region = ""
	if !(image.Filter{Region: "r2"}).Match(anywhere) {
		t.Error("an image of no region does not match a region, want it to")
	}
}

func TestSort(t *testing.T) {
	low, high := jammy, jammy
	low.Priority, high.Priority = 10, 50
	other := low
	other.Arch = "arm64"
	list := []image.Metadata{high, other, low}
	image.Sort(list)
	if list[0] != low || list[1] != other || list[2] != high {
		t.Errorf("sorted = %+v, want the highest priority last", list)
	}
	if low.Key() != high.Key() || low.Key() == other.Key() {
		t.Error("keys do not tell images apart")
	}
}
