package constraints_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/constraints"
)

func mustParse(t *testing.T, args ...string) constraints.Value {
	t.Helper()
	v, err := constraints.Parse(args...)
	if err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return v
}

func TestParseGood(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"  ", "\t"}, ""},
		{[]string{"container="}, "container="},
		{[]string{"container=none"}, "container=none"},
		{[]string{"container=lxd"}, "container=lxd"},
		{[]string{"arch="}, "arch="},
		{[]string{"arch=amd64"}, "arch=amd64"},
		{[]string{"arch=armhf"}, "arch=armhf"},
		{[]string{"cores="}, "cores="},
		{[]string{"cores=0"}, "cores="},
		{[]string{"cores=4"}, "cores=4"},
		{[]string{"cpu-cores=4"}, "cores=4"},
		{[]string{"cpu-power="}, "cpu-power="},
		{[]string{"cpu-power=44"}, "cpu-power=44"},
		{[]string{"mem="}, "mem="},
		{[]string{"mem=0"}, "mem="},
		{[]string{"mem=512"}, "mem=512M"},
		{[]string{"mem=1.5G"}, "mem=1536M"},
		{[]string{"mem=36.2T"}, "mem=37958452M"},
		{[]string{"mem=18.9P"}, "mem=20293720474M"},
		{[]string{"root-disk=1.5G"}, "root-disk=1536M"},
		{[]string{"tags="}, "tags="},
		{[]string{"tags=foo,bar"}, "tags=foo,bar"},
		{[]string{"spaces="}, "spaces="},
		{[]string{"spaces=space1,space2"}, "spaces=space1,space2"},
		{[]string{"spaces=^dmz,^public"}, "spaces=^dmz,^public"},
		{[]string{"instance-type="}, "instance-type="},
		{[]string{"instance-type=foo"}, "instance-type=foo"},
		{[]string{"virt-type="}, "virt-type="},
		{[]string{"virt-type=kvm"}, "virt-type=kvm"},
		{
			[]string{" root-disk=8G mem=2T  arch=i386  cores=4096 cpu-power=9001 container=lxd tags=foo,bar spaces=space1,^space2 instance-type=x virt-type=y"},
			"arch=i386 container=lxd cores=4096 cpu-power=9001 instance-type=x mem=2097152M root-disk=8192M tags=foo,bar spaces=space1,^space2 virt-type=y",
		},
		{[]string{"root-disk=8G", "mem=2T", "arch=i386"}, "arch=i386 mem=2097152M root-disk=8192M"},
	} {
		v := mustParse(t, c.args...)
		if got := v.String(); got != c.want {
			t.Errorf("Parse(%q) = %q, want %q", c.args, got, c.want)
		}
		if again := mustParse(t, v.String()); !reflect.DeepEqual(again, v) {
			t.Errorf("Parse(%q) = %+v, want %+v", v.String(), again, v)
		}
		if err := v.Check(); err != nil {
			t.Errorf("Check(%q) = %v", v, err)
		}
	}
}

func TestParseBad(t *testing.T) {
	const count = "must be a non-negative integer"
	const float = "must be a non-negative float with optional M/G/T/P suffix"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"cheese"}, `malformed constraint "cheese"`},
		{[]string{"=cheese"}, `malformed constraint "=cheese"`},
		{[]string{"cheese=edam"}, `unknown constraint "cheese"`},
		{[]string{"container=foo"}, `bad "container" constraint: invalid container type "foo"`},
		{[]string{"container=lxd container=kvm"}, `bad "container" constraint: already set`},
		{[]string{"container=lxd", "container="}, `bad "container" constraint: already set`},
		{[]string{"arch=cheese"}, `bad "arch" constraint: "cheese" not recognized`},
		{[]string{"arch=123.45"}, `bad "arch" constraint: "123.45" not recognized`},
		{[]string{"arch=amd64 arch=amd64"}, `bad "arch" constraint: already set`},
		{[]string{"cores=cheese"}, `bad "cores" constraint: ` + count},
		{[]string{"cores=-1"}, `bad "cores" constraint: ` + count},
		{[]string{"cpu-cores=123.45"}, `bad "cores" constraint: ` + count},
		{[]string{"cores=1", "cpu-cores=2"}, `bad "cores" constraint: already set`},
		{[]string{"cpu-power=cheese"}, `bad "cpu-power" constraint: ` + count},
		{[]string{"cpu-power= cpu-power="}, `bad "cpu-power" constraint: already set`},
		{[]string{"mem=cheese"}, `bad "mem" constraint: ` + float},
		{[]string{"mem=-1"}, `bad "mem" constraint: ` + float},
		{[]string{"mem=32Y"}, `bad "mem" constraint: ` + float},
		{[]string{"mem=1G mem="}, `bad "mem" constraint: already set`},
		{[]string{"root-disk=32Y"}, `bad "root-disk" constraint: ` + float},
		{[]string{"root-disk=1 root-disk=1"}, `bad "root-disk" constraint: already set`},
		{[]string{"spaces=a,"}, `bad "spaces" constraint: "" is not a valid space name`},
		{[]string{"spaces=^_x"}, `bad "spaces" constraint: "_x" is not a valid space name`},
		{[]string{"virt-type=a virt-type=a"}, `bad "virt-type" constraint: already set`},
	} {
		_, err := constraints.Parse(c.args...)
		if !errors.Is(err, errors.NotValid) || err.Error() != c.want {
			t.Errorf("Parse(%q) = %v, want %q", c.args, err, c.want)
		}
	}
}

func TestAliasIsReported(t *testing.T) {
	v, aliases, err := constraints.ParseWithAliases("cpu-cores=5 arch=amd64")
	if err != nil {
		t.Fatal(err)
	}
	if v.String() != "arch=amd64 cores=5" || !reflect.DeepEqual(aliases, map[string]string{"cpu-cores": "cores"}) {
		t.Errorf("got %q, %v", v, aliases)
	}
	if _, aliases, _ := constraints.ParseWithAliases("cores=5"); aliases != nil {
		t.Errorf("aliases = %v, want nil", aliases)
	}
}

func TestJSONKeepsWhatIsUnset(t *testing.T) {
	for text, want := range map[string]string{
		"":                           `{}`,
		"arch= cores= tags= spaces=": `{"arch":"","cores":0,"tags":[],"spaces":[]}`,
		"mem=4G cpu-cores=2":         `{"cores":2,"mem":4096}`,
	} {
		v := mustParse(t, text)
		data, err := json.Marshal(v)
		if err != nil || string(data) != want {
			t.Errorf("Marshal(%q) = %s, %v, want %s", text, data, err, want)
		}
		var back constraints.Value
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("Unmarshal(%s) = %+v, %v", data, back, err)
		}
	}
}

func TestCheckRefusesWhatParseWould(t *testing.T) {
	for body, want := range map[string]string{
		`{"arch":"foo"}`:         `bad "arch" constraint: "foo" not recognized`,
		`{"container":"lxc"}`:    `bad "container" constraint: invalid container type "lxc"`,
		`{"spaces":["A"]}`:       `bad "spaces" constraint: "A" is not a valid space name`,
		`{"tags":["a b"]}`:       `bad "tags" constraint: "a b" has blanks in it`,
		`{"instance-type":" x"}`: `bad "instance-type" constraint: " x" has blanks in it`,
		`{"virt-type":"a\nb=c"}`: `bad "virt-type" constraint: "a\nb=c" has blanks in it`,
	} {
		var v constraints.Value
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if err := v.Check(); !errors.Is(err, errors.NotValid) || err.Error() != want {
			t.Errorf("Check(%s) = %v, want %q", body, err, want)
		}
	}
}

func TestClientMerge(t *testing.T) {
	foo := "foo"
	for _, c := range []struct {
		name   string
		values []constraints.Value
		want   string
		err    string
	}{
		{name: "nothing"},
		{name: "two", values: []constraints.Value{mustParse(t, "arch=amd64 mem=4G"), mustParse(t, "cores=42")},
			want: "arch=amd64 cores=42 mem=4096M"},
		{name: "three", values: []constraints.Value{
			mustParse(t, "arch=amd64 mem=4G"), mustParse(t, "cores=42"),
			mustParse(t, "root-disk=8G container=lxd spaces=space1,^space2")},
			want: "arch=amd64 container=lxd cores=42 mem=4096M root-disk=8192M spaces=space1,^space2"},
		{name: "bad value", values: []constraints.Value{{Arch: &foo}}, err: `bad "arch" constraint: "foo" not recognized`},
		{name: "same twice", values: []constraints.Value{mustParse(t, "arch=amd64"), mustParse(t, "arch=amd64")},
			err: `bad "arch" constraint: already set`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := constraints.Merge(c.values...)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("Merge = %v, want %q", err, c.err)
				}
			} else if err != nil || got.String() != c.want {
				t.Errorf("Merge = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestSpacesAndTagsBySign(t *testing.T) {
	v := mustParse(t, "spaces=space1,^space2,space3,^space4 tags=a,^b")
	for _, c := range []struct{ got, want []string }{
		{v.IncludedSpaces(), []string{"space1", "space3"}},
		{v.ExcludedSpaces(), []string{"space2", "space4"}},
		{v.IncludedTags(), []string{"a"}},
		{v.ExcludedTags(), []string{"b"}},
		{constraints.Value{}.IncludedSpaces(), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if v := mustParse(t, "tags= spaces="); v.Tags == nil || v.Spaces == nil {
		t.Error("empty lists are absent, want present")
	}
	if !mustParse(t, "container=lxd").HasContainer() || mustParse(t, "container=none").HasContainer() {
		t.Error("HasContainer is wrong")
	}
	if !(constraints.Value{}).IsEmpty() || mustParse(t, "arch=").IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}

// value draws any Value that Parse could have made.
func value(t *rapid.T) constraints.Value {
	var v constraints.Value
	number := func(name string) *uint64 {
		if !rapid.Bool().Draw(t, "has "+name) {
			return nil
		}
		n := rapid.Uint64().Draw(t, name)
		return &n
	}
	v.Cores, v.CPUPower, v.Mem, v.RootDisk = number("cores"), number("power"), number("mem"), number("disk")
	if rapid.Bool().Draw(t, "has arch") {
		a := rapid.SampledFrom(append(arch.All(), "")).Draw(t, "arch")
		v.Arch = &a
	}
	if rapid.Bool().Draw(t, "has tags") {
		tags := rapid.SliceOf(rapid.StringMatching(`\^?[a-z0-9]+`)).Draw(t, "tags")
		if tags == nil {
			tags = []string{}
		}
		v.Tags = &tags
	}
	if rapid.Bool().Draw(t, "has type") {
		s := rapid.StringMatching(`[a-z0-9.=]*`).Draw(t, "type")
		v.InstanceType = &s
	}
	return v
}

func TestPrintedValueParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(t)
		got, err := constraints.Parse(v.String())
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", v, got, err, v)
		}
	})
}

func TestMergePresenceDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fallback, override := value(t), value(t)
		var d constraints.Validator
		got, err := d.Merge(fallback, override)
		if err != nil {
			t.Fatal(err)
		}
		want := append(override.Attributes(), fallback.Attributes()...)
		for _, name := range got.Attributes() {
			if !slices.Contains(want, name) {
				t.Errorf("%q is in the result only", name)
			}
		}
		again, err := d.Merge(got, override)
		if err != nil || again.String() != got.String() {
			t.Errorf("merging again changes %q to %q", got, again)
		}
		if over, _ := d.Merge(got, override); over.String() != got.String() {
			t.Errorf("override lost: %q", over)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "arch=amd64 cores=4", "mem=1.5G tags=a,,b", "spaces=^a,b-c", "cheese", "cpu-cores=1", "tags=^"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := constraints.Parse(text)
		if err != nil {
			return
		}
		again, err := constraints.Parse(v.String())
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", v, again, err, v)
		}
		if err := v.Check(); err != nil {
			t.Errorf("Check(%q) = %v", v, err)
		}
	})
}
