package tag_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/tag"
)

const uuid = "deadbeef-0bad-400d-8000-4b1d0d06f00d"

func TestParseTag(t *testing.T) {
	for _, c := range []struct{ text, kind, id string }{
		{"machine-0", "machine", "0"},
		{"machine-0-lxd-1", "machine", "0/lxd/1"},
		{"machine-10-lxd-0-kvm-3", "machine", "10/lxd/0/kvm/3"},
		{"unit-mysql-0", "unit", "mysql/0"},
		{"application-mysql", "application", "mysql"},
		{"user-admin", "user", "admin"},
		{"user-admin@local", "user", "admin"},
		{"user-ann@ldap", "user", "ann@ldap"},
		{"model-" + uuid, "model", uuid},
		{"controller-" + uuid, "controller", uuid},
		{"volume-0", "volume", "0"},
		{"volume-1-0", "volume", "1/0"},
		{"host-rack1-n07.example", "host", "rack1-n07.example"},
		{"space-dmz", "space", "dmz"},
		{"cloudcred-aws_admin_default", "cloudcred", "aws/admin/default"},
	} {
		got, err := tag.ParseTag(c.text)
		if err != nil {
			t.Errorf("ParseTag(%q): %v", c.text, err)
			continue
		}
		if got.Kind() != c.kind || got.Id() != c.id {
			t.Errorf("ParseTag(%q) = %s %q, want %s %q", c.text, got.Kind(), got.Id(), c.kind, c.id)
		}
	}
}

func TestParseTagRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                           `"" is not a valid tag`,
		"x":                          `"x" is not a valid tag`,
		"garbage":                    `"garbage" is not a valid tag`,
		"foo-1":                      `"foo-1" is not a valid tag`,
		"-machine-0":                 `"-machine-0" is not a valid tag`,
		"machine":                    `"machine" is not a valid tag`,
		"machine-":                   `"machine-" is not a valid machine tag`,
		"machine-foo":                `"machine-foo" is not a valid machine tag`,
		"machine-01":                 `"machine-01" is not a valid machine tag`,
		"machine-0/lxd/0":            `"machine-0/lxd/0" is not a valid machine tag`,
		"machine-0-lxd":              `"machine-0-lxd" is not a valid machine tag`,
		"machine-0\n":                `"machine-0\n" is not a valid machine tag`,
		"user-a":                     `"user-a" is not a valid user tag`,
		"user-@local":                `"user-@local" is not a valid user tag`,
		"model-":                     `"model-" is not a valid model tag`,
		"model-x" + uuid:             `"model-x` + uuid + `" is not a valid model tag`,
		"model-" + uuid + "/x":       `"model-` + uuid + `/x" is not a valid model tag`,
		"controller-" + uuid + "zzz": `"controller-` + uuid + `zzz" is not a valid controller tag`,
		"action-x" + uuid:            `"action-x` + uuid + `" is not a valid action tag`,
		"host--x":                    `"host--x" is not a valid host tag`,
		"host-UPPER":                 `"host-UPPER" is not a valid host tag`,
	} {
		got, err := tag.ParseTag(text)
		if !errors.Is(err, errors.NotValid) || err.Error() != want {
			t.Errorf("ParseTag(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}

// TestLongNamesAreRefused guards against strangers: matching a name of megabytes
// takes seconds, and whoever remembers it runs out of memory.
func TestLongNamesAreRefused(t *testing.T) {
	long := strings.Repeat("a", 4<<20)
	for _, text := range []string{"user-" + long, "machine-" + long, "host-" + long, long} {
		_, err := tag.ParseTag(text)
		if !errors.Is(err, errors.NotValid) || len(err.Error()) > 100 {
			t.Errorf("ParseTag of %d bytes = %.100v, want one short line", len(text), err)
		}
	}
	if tag.IsValidUserName(long[:256]) || !tag.IsValidUserName(long[:255]) {
		t.Error("want user names of up to 255 bytes to be valid, and no others")
	}
	if _, err := tag.ParseMachineTag("machine-0" + strings.Repeat("-lxd-0", 100)); err != nil {
		t.Errorf("a container in a hundred others: %v", err)
	}
}

func TestParseOfOneKind(t *testing.T) {
	if got, err := tag.ParseMachineTag("machine-3-kvm-0"); err != nil || got != tag.NewMachineTag("3/kvm/0") {
		t.Errorf("ParseMachineTag = %v, %v", got, err)
	}
	if got, err := tag.ParseModelTag("model-" + uuid); err != nil || got != tag.NewModelTag(uuid) {
		t.Errorf("ParseModelTag = %v, %v", got, err)
	}
	if got, err := tag.ParseControllerTag("controller-" + uuid); err != nil || got != tag.NewControllerTag(uuid) {
		t.Errorf("ParseControllerTag = %v, %v", got, err)
	}
	want, _ := tag.NewUserTag("ann")
	if got, err := tag.ParseUserTag("user-ann@local"); err != nil || got != want {
		t.Errorf("ParseUserTag = %v, %v, want %v", got, err, want)
	}
	for name, parse := range map[string]func(string) error{
		"machine":     func(s string) error { _, err := tag.ParseMachineTag(s); return err },
		"user":        func(s string) error { _, err := tag.ParseUserTag(s); return err },
		"model":       func(s string) error { _, err := tag.ParseModelTag(s); return err },
		"controller":  func(s string) error { _, err := tag.ParseControllerTag(s); return err },
		"host":        func(s string) error { _, err := tag.ParseHostTag(s); return err },
		"application": func(s string) error { _, err := tag.ParseApplicationTag(s); return err },
		"volume":      func(s string) error { _, err := tag.ParseVolumeTag(s); return err },
	} {
		if err := parse("unit-foo-0"); err == nil || err.Error() != `"unit-foo-0" is not a valid `+name+` tag` {
			t.Errorf("parsing unit-foo-0 as a %s: %v", name, err)
		}
	}
	if _, err := tag.ParseUnitTag("machine-0"); err == nil || err.Error() != `"machine-0" is not a valid unit tag` {
		t.Errorf("ParseUnitTag(machine-0) = %v", err)
	}
}

func TestConstructorsRefuseInsteadOfPanicking(t *testing.T) {
	for _, id := range []string{"", "a", "@", "a b", "\x00"} {
		if _, err := tag.NewUserTag(id); !errors.Is(err, errors.NotValid) {
			t.Errorf("NewUserTag(%q) = %v, want NotValid", id, err)
		}
	}
	for _, id := range []string{"", "-x", "x-", "a_b", strings.Repeat("a", 64)} {
		if _, err := tag.NewHostTag(id); !errors.Is(err, errors.NotValid) {
			t.Errorf("NewHostTag(%q) = %v, want NotValid", id, err)
		}
	}
	if h, err := tag.NewHostTag("n1"); err != nil || h.String() != "host-n1" {
		t.Errorf("NewHostTag = %v, %v", h, err)
	}
}

func TestMachineIds(t *testing.T) {
	for _, c := range []struct {
		id, parent, top string
		typ             container.Type
		level           int
	}{
		{"0", "", "0", "", 0},
		{"12/lxd/3", "12", "12", "lxd", 1},
		{"0/lxd/0/kvm/1", "0/lxd/0", "0", "kvm", 2},
	} {
		if got := tag.Parent(c.id); got != c.parent {
			t.Errorf("Parent(%s) = %q, want %q", c.id, got, c.parent)
		}
		if got := tag.TopParent(c.id); got != c.top {
			t.Errorf("TopParent(%s) = %q, want %q", c.id, got, c.top)
		}
		if got := tag.ContainerType(c.id); got != c.typ {
			t.Errorf("ContainerType(%s) = %q, want %q", c.id, got, c.typ)
		}
		if got := tag.NestingLevel(c.id); got != c.level {
			t.Errorf("NestingLevel(%s) = %d, want %d", c.id, got, c.level)
		}
		if got := tag.IsContainer(c.id); got != (c.level > 0) {
			t.Errorf("IsContainer(%s) = %v", c.id, got)
		}
	}
}

func TestSortMachines(t *testing.T) {
	want := []string{"0", "0/kvm/0", "0/lxd/0", "0/lxd/0/lxd/1", "0/lxd/2", "0/lxd/10", "1", "2", "10", "99999999999999999999999"}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	tag.SortMachines(got)
	if !slices.Equal(got, want) {
		t.Errorf("SortMachines = %q, want %q", got, want)
	}
}

func FuzzParseTag(f *testing.F) {
	for _, s := range []string{
		"", "machine-0-lxd-1", "user-a@local", "model-" + uuid, "controller-3", "unit-a-0", "host-x", "relation-a.b#c.d",
		"cloudcred-a_b_c", "cloudcred-a%5f_b_c", "ipaddress-" + uuid, "action-1", "charm-x", "storage-a-0", "subnet-1", "environment-" + uuid,
		"applicationoffer-x", "filesystem-0-1", "payload-a/b", "cloud-a", "caasmodel-" + uuid, "operation-1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := tag.ParseTag(text)
		if err != nil {
			if !errors.Is(err, errors.NotValid) {
				t.Errorf("ParseTag(%q) = %v, want NotValid", text, err)
			}
			return
		}
		again, err := tag.ParseTag(got.String())
		if err != nil || again != got {
			t.Errorf("ParseTag(%q) = %v, %v, want %v", got.String(), again, err, got)
		}
		if got.Kind() == tag.MachineKind && !tag.IsValidMachine(got.Id()) {
			t.Errorf("%q gives machine id %q", text, got.Id())
		}
	})
}
