package network_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
)

func TestCheckSpaceName(t *testing.T) {
	for name, ok := range map[string]bool{
		"db": true, "space-1": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-db": false, "db-": false, "d--b": false, "DB": false, "^db": false, "a b": false, strings.Repeat("a", 64): false,
	} {
		if err := network.CheckSpaceName(name); (err == nil) != ok || err != nil && !errors.Is(err, errors.NotValid) {
			t.Errorf("CheckSpaceName(%q) = %v, want it right: %t", name, err, ok)
		}
	}
}

func TestSubnetCheck(t *testing.T) {
	tests := []struct {
		name   string
		subnet network.Subnet
		want   string // part of the error
	}{
		{"plain", network.Subnet{CIDR: "10.0.0.0/24", Space: "db"}, ""},
		{"version 6", network.Subnet{CIDR: "2001:db8::/64", Space: "db", VLANTag: 4094}, ""},
		{"range", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", Low: "10.0.0.10", High: "10.0.0.10"}, ""},
		{"no range of addresses", network.Subnet{CIDR: "10.0.0.1", Space: "db"}, "use a form such as"},
		{"bits beyond the prefix", network.Subnet{CIDR: "10.0.0.7/24", Space: "db"}, "did you mean 10.0.0.0/24?"},
		{"mapped", network.Subnet{CIDR: "::ffff:10.0.0.0/120", Space: "db"}, "use a form such as"},
		{"no space", network.Subnet{CIDR: "10.0.0.0/24"}, "space name"},
		{"bad tag", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", VLANTag: 4095}, "VLAN tag 4095"},
		{"half a range", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", Low: "10.0.0.1"}, "last address"},
		{"other half", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", High: "10.0.0.1"}, "first address"},
		{"range outside", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", Low: "10.0.1.1", High: "10.0.1.2"}, "range 10.0.1.1"},
		{"range backwards", network.Subnet{CIDR: "10.0.0.0/24", Space: "db", Low: "10.0.0.2", High: "10.0.0.1"}, "range 10.0.0.2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.subnet.Check()
			if test.want == "" {
				if err != nil {
					t.Errorf("Check() = %v", err)
				}
			} else if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check() = %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzParseCIDR checks that what is accepted is canonical, so that two texts of
// one subnet cannot both be there.
func FuzzParseCIDR(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/24", "10.0.0.1/24", "2001:db8::/64", "0.0.0.0/0", "", "10.0.0.0", "::ffff:1.2.3.0/120", "fe80::%eth0/64"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := network.ParseCIDR(text)
		if err != nil {
			return
		}
		if again, err := network.ParseCIDR(p.String()); err != nil || again != p || p.Addr().Zone() != "" {
			t.Errorf("ParseCIDR(%q) = %v, which is read as %v, %v", text, p, again, err)
		}
	})
}
