package constraints_test

import (
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
)

func list(s ...string) []string { return s }

func TestValidate(t *testing.T) {
	const ambiguous = `ambiguous constraints: "arch" overlaps with "instance-type"`
	for _, c := range []struct {
		name        string
		cons        string
		rules       constraints.Validator
		unsupported []string
		err         string
	}{
		{name: "unsupported", cons: "root-disk=8G mem=4G arch=amd64 cpu-power=1000 cores=4 tags=foo",
			rules: constraints.Validator{Unsupported: list("tags")}, unsupported: list("tags")},
		{name: "two unsupported", cons: "root-disk=8G mem=4G arch=amd64 cpu-power=1000 cores=4 instance-type=foo",
			rules:       constraints.Validator{Unsupported: list("instance-type", "cpu-power")},
			unsupported: list("cpu-power", "instance-type")},
		{name: "conflict before unsupported", cons: "root-disk=8G mem=4G cores=4 instance-type=foo",
			rules: constraints.Validator{Unsupported: list("cores"),
				Conflicts: []constraints.Conflict{{Reds: list("mem", "arch"), Blues: list("instance-type")}}},
			unsupported: list("cores"),
			err:         `ambiguous constraints: "instance-type" overlaps with "mem"`},
		{name: "reds only", cons: "root-disk=8G mem=4G arch=amd64 cores=4 instance-type=foo",
			rules: constraints.Validator{Conflicts: []constraints.Conflict{{Reds: list("mem", "arch")}}}},
		{name: "blues only", cons: "root-disk=8G mem=4G arch=amd64 cores=4 instance-type=foo",
			rules: constraints.Validator{Conflicts: []constraints.Conflict{{Blues: list("mem", "arch")}}}},
		{name: "conflict", cons: "root-disk=8G mem=4G arch=amd64 cores=4 instance-type=foo",
			rules: constraints.Validator{Conflicts: []constraints.Conflict{{Reds: list("mem", "arch"), Blues: list("instance-type")}}},
			err:   ambiguous},
		{name: "conflict the other way", cons: "root-disk=8G mem=4G arch=amd64 cores=4 instance-type=foo",
			rules: constraints.Validator{Conflicts: []constraints.Conflict{{Reds: list("instance-type"), Blues: list("mem", "arch")}}},
			err:   ambiguous},
		{name: "arch known", cons: "arch=amd64 mem=4G cores=4",
			rules: constraints.Validator{Vocabulary: map[string][]string{"arch": list("amd64", "i386")}}},
		{name: "arch unknown", cons: "arch=i386",
			rules: constraints.Validator{Vocabulary: map[string][]string{"arch": list("amd64")}},
			err:   "invalid constraint value: arch=i386\nvalid values are: [amd64]"},
		{name: "arch unset", cons: "arch=",
			rules: constraints.Validator{Vocabulary: map[string][]string{"arch": list("amd64")}}},
		{name: "cores known", cons: "mem=4G cores=4",
			rules: constraints.Validator{Vocabulary: map[string][]string{"cores": list("2", "4", "8")}}},
		{name: "cores unknown", cons: "mem=4G cores=5",
			rules: constraints.Validator{Vocabulary: map[string][]string{"cores": list("2", "4", "8")}},
			err:   "invalid constraint value: cores=5\nvalid values are: [2 4 8]"},
		{name: "type known", cons: "mem=4G instance-type=foo",
			rules: constraints.Validator{Vocabulary: map[string][]string{"instance-type": list("foo", "bar")}}},
		{name: "type unknown", cons: "mem=4G instance-type=foo",
			rules: constraints.Validator{Vocabulary: map[string][]string{"instance-type": list("bar")}},
			err:   "invalid constraint value: instance-type=foo\nvalid values are: [bar]"},
		{name: "tags known", cons: "mem=4G tags=foo,bar",
			rules: constraints.Validator{Vocabulary: map[string][]string{"tags": list("foo", "bar", "another")}}},
		{name: "tag unknown", cons: "mem=4G tags=foo,other",
			rules: constraints.Validator{Vocabulary: map[string][]string{"tags": list("foo", "bar", "another")}},
			err:   "invalid constraint value: tags=other\nvalid values are: [foo bar another]"},
		{name: "virt-type", cons: "virt-type=bar",
			rules: constraints.Validator{Vocabulary: map[string][]string{"virt-type": list("bar")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			unsupported, err := c.rules.Validate(mustParse(t, c.cons))
			if !slices.Equal(unsupported, c.unsupported) {
				t.Errorf("unsupported = %q, want %q", unsupported, c.unsupported)
			}
			if c.err == "" && err != nil {
				t.Errorf("err = %v, want nil", err)
			}
			if c.err != "" && (!errors.Is(err, errors.NotValid) || err.Error() != c.err) {
				t.Errorf("err = %v, want %q", err, c.err)
			}
		})
	}
}

func TestServerMerge(t *testing.T) {
	exclusive := constraints.Validator{
		Conflicts: []constraints.Conflict{{Reds: list("mem", "arch"), Blues: list("instance-type")}},
	}
	exclusiveUnsupported := exclusive
	exclusiveUnsupported.Unsupported = list("instance-type")
	type row struct {
		fallback, override, want string
		rules                    constraints.Validator
	}
	rows := []row{
		{fallback: "tags=foo,bar", override: "tags=", want: "tags="},
		{fallback: "cpu-power=1000 cores=4", override: "root-disk=8G mem=4G arch=amd64",
			want: "cpu-power=1000 cores=4 root-disk=8G mem=4G arch=amd64"},
		{fallback: "cpu-power=1000 cores=4 mem=8G", override: "root-disk=8G mem=4G arch=amd64",
			want: "cpu-power=1000 cores=4 root-disk=8G mem=4G arch=amd64"},
		{fallback: "root-disk=8G cores=4 instance-type=foo", want: "root-disk=8G cores=4 instance-type=foo", rules: exclusive},
		{fallback: "root-disk=8G instance-type=foo", override: "root-disk=8G cores=4 instance-type=bar",
			want: "root-disk=8G cores=4 instance-type=bar", rules: exclusive},
		{fallback: "root-disk=8G instance-type=foo", override: "root-disk=8G cores=4 instance-type=bar",
			want: "root-disk=8G cores=4 instance-type=bar", rules: exclusiveUnsupported},
		{fallback: "root-disk=8G mem=4G", override: "root-disk=8G cores=4 instance-type=bar",
			want: "root-disk=8G cores=4 instance-type=bar", rules: exclusive},
		{fallback: "root-disk=8G arch=amd64", override: "root-disk=8G cores=4 instance-type=bar",
			want: "root-disk=8G cores=4 instance-type=bar", rules: exclusive},
		{fallback: "root-disk=8G cores=4 instance-type=bar", override: "root-disk=8G mem=4G",
			want: "root-disk=8G cores=4 mem=4G", rules: exclusive},
		{fallback: "root-disk=8G cores=4 instance-type=bar", override: "root-disk=8G arch=amd64 mem=4G",
			want: "root-disk=8G cores=4 arch=amd64 mem=4G", rules: exclusive},
	}
	for _, one := range []string{"container=lxd", "arch=amd64", "instance-type=a", "cores=4", "cpu-power=9", "tags=a", "mem=4G", "root-disk=8G"} {
		rows = append(rows, row{override: one, want: one}, row{fallback: one, want: one})
	}
	for name, pair := range map[string][2]string{
		"container": {"lxd", "kvm"}, "arch": {"amd64", "i386"}, "cores": {"1", "2"}, "cpu-power": {"1", "2"},
		"tags": {"a", "b"}, "mem": {"1G", "2G"}, "root-disk": {"1G", "2G"}, "instance-type": {"a", "b"},
	} {
		rows = append(rows, row{fallback: name + "=" + pair[0], override: name + "=" + pair[1], want: name + "=" + pair[1]})
	}
	for _, r := range rows {
		t.Run(r.fallback+"+"+r.override, func(t *testing.T) {
			got, err := r.rules.Merge(mustParse(t, r.fallback), mustParse(t, r.override))
			if want := mustParse(t, r.want).String(); err != nil || got.String() != want {
				t.Errorf("Merge = %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestMergeRefusesEitherValue(t *testing.T) {
	d := constraints.Validator{
		Conflicts:  []constraints.Conflict{{Reds: list("mem"), Blues: list("instance-type")}},
		Vocabulary: map[string][]string{"arch": list("amd64")},
	}
	for _, bad := range []string{"mem=1G instance-type=x", "arch=i386"} {
		if _, err := d.Merge(mustParse(t, bad), constraints.Value{}); !errors.Is(err, errors.NotValid) {
			t.Errorf("Merge(%q, nothing) = %v, want NotValid", bad, err)
		}
		if _, err := d.Merge(constraints.Value{}, mustParse(t, bad)); !errors.Is(err, errors.NotValid) {
			t.Errorf("Merge(nothing, %q) = %v, want NotValid", bad, err)
		}
	}
}

func TestAddVocabulary(t *testing.T) {
	shared := map[string][]string{"arch": list("amd64")}
	d := constraints.Validator{Vocabulary: shared}
	d.AddVocabulary("arch", "arm64", "amd64")
	d.AddVocabulary("virt-type", "kvm") // not limited: stays so
	if _, err := d.Validate(mustParse(t, "arch=arm64 virt-type=other")); err != nil {
		t.Errorf("Validate = %v", err)
	}
	if len(shared["arch"]) != 1 {
		t.Errorf("the map handed in was changed to %v", shared)
	}
}
