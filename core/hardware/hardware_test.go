package hardware_test

import (
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // as printed
		err  string
	}{
		{name: "nothing"},
		{name: "blanks", args: []string{"   ", "\t"}},
		{name: "empty arch", args: []string{"arch="}, want: "arch="},
		{name: "amd64", args: []string{"arch=amd64"}, want: "arch=amd64"},
		{name: "i386", args: []string{"arch=i386"}, want: "arch=i386"},
		{name: "armhf", args: []string{"arch=armhf"}, want: "arch=armhf"},
		{name: "no cores", args: []string{"cores="}, want: "cores=0"},
		{name: "zero cores", args: []string{"cores=0"}, want: "cores=0"},
		{name: "cores", args: []string{"cores=4"}, want: "cores=4"},
		{name: "old name of cores", args: []string{"cpu-cores=4"}, want: "cores=4"},
		{name: "cpu-power", args: []string{"cpu-power=44"}, want: "cpu-power=44"},
		{name: "mem empty", args: []string{"mem="}, want: "mem=0M"},
		{name: "mem", args: []string{"mem=512"}, want: "mem=512M"},
		{name: "mem G", args: []string{"mem=1.5G"}, want: "mem=1536M"},
		{name: "mem T", args: []string{"mem=36.2T"}, want: "mem=37958452M"},
		{name: "root-disk P", args: []string{"root-disk=18.9P"}, want: "root-disk=20293720474M"},
		{name: "tags", args: []string{"tags=a,b"}, want: "tags=a,b"},
		{name: "empty tags", args: []string{"tags="}, want: ""},
		{name: "empty zone", args: []string{"availability-zone="}, want: ""},
		{name: "zone", args: []string{"availability-zone=a_zone"}, want: "availability-zone=a_zone"},
		{name: "zone after an empty one", args: []string{"availability-zone=", "availability-zone=z"}, want: "availability-zone=z"},
		{
			name: "all together",
			args: []string{" root-disk=4G mem=2T  arch=i386  cores=4096 cpu-power=9001 availability-zone=a_zone tags=x"},
			want: "arch=i386 cores=4096 cpu-power=9001 mem=2097152M root-disk=4096M tags=x availability-zone=a_zone",
		},
		{
			name: "all apart",
			args: []string{"root-disk=4G", "mem=2T", "arch=i386", "cores=4096", "cpu-power=9001"},
			want: "arch=i386 cores=4096 cpu-power=9001 mem=2097152M root-disk=4096M",
		},
		{name: "no equals", args: []string{"cheese"}, err: `malformed characteristic "cheese"`},
		{name: "no name", args: []string{"=cheese"}, err: `malformed characteristic "=cheese"`},
		{name: "unknown", args: []string{"cheese=edam"}, err: `unknown characteristic "cheese"`},
		{name: "bad arch", args: []string{"arch=cheese"}, err: `bad "arch" characteristic: "cheese" not recognized`},
		{name: "number as arch", args: []string{"arch=123.45"}, err: `bad "arch" characteristic: "123.45" not recognized`},
		{name: "arch twice", args: []string{"arch=amd64 arch="}, err: `bad "arch" characteristic: already set`},
		{name: "cores twice", args: []string{"cores=1", "cpu-cores="}, err: `bad "cores" characteristic: already set`},
		{name: "mem twice", args: []string{"mem=1G mem=2G"}, err: `bad "mem" characteristic: already set`},
		{name: "tags twice", args: []string{"tags= tags="}, err: `bad "tags" characteristic: already set`},
		{name: "zone twice", args: []string{"availability-zone=a availability-zone="}, err: `bad "availability-zone" characteristic: already set`},
		{name: "bad cores", args: []string{"cores=123.45"}, err: `bad "cores" characteristic: must be a non-negative integer`},
		{name: "bad cpu-power", args: []string{"cpu-power=-1"}, err: `bad "cpu-power" characteristic: must be a non-negative integer`},
		{name: "bad mem", args: []string{"mem=32Y"}, err: `bad "mem" characteristic: must be a non-negative float with optional M/G/T/P suffix`},
		{name: "bad root-disk", args: []string{"root-disk=-1"}, err: `bad "root-disk" characteristic: must be a non-negative float with optional M/G/T/P suffix`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := hardware.Parse(c.args...)
			if c.err != "" {
				if !errors.Is(err, errors.NotValid) || err.Error() != c.err {
					t.Errorf("Parse(%q) = %v, want %q", c.args, err, c.err)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Errorf("Parse(%q) = %q, %v, want %q", c.args, got, err, c.want)
			}
		})
	}
}

func TestUnmet(t *testing.T) {
	have, err := hardware.Parse("arch=amd64 cores=4 mem=4G root-disk=40G tags=ssd,gpu")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  string
		unmet []string
	}{
		{"", nil},
		{"arch= mem= tags=", nil},
		{"arch=amd64 cores=4 mem=4G tags=ssd,^slow spaces=dmz virt-type=kvm", nil},
		{"arch=arm64 cores=5 mem=4097M root-disk=1T", []string{"arch=arm64", "cores=5", "mem=4097M", "root-disk=1048576M"}},
		{"tags=ssd,fast,^gpu", []string{"tags=fast", "tags=^gpu"}},
		{"cpu-power=1", []string{"cpu-power=1"}},
	} {
		v, err := constraints.Parse(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := have.Unmet(v); !slices.Equal(got, c.unmet) {
			t.Errorf("Unmet(%q) = %q, want %q", c.want, got, c.unmet)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "arch=amd64 cores=4", "mem=1.5G tags=a,b", "availability-zone=z", "cheese"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := hardware.Parse(text)
		if err != nil {
			return
		}
		printed := c.String()
		again, err := hardware.Parse(printed)
		if err != nil {
			t.Fatalf("Parse(%q): %v", printed, err)
		}
		if again.String() != printed {
			t.Errorf("%q prints again as %q", printed, again)
		}
	})
}
