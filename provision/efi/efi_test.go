package efi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/provision/efi"
)

const guid = "7A3C1F00-1B2C-4D5E-8F90-AABBCCDDEEFF"

func TestOptionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z0-9 äß€\\._-]{0,40}`)
		o := efi.Option{
			Label: text.Draw(t, "label"), File: text.Draw(t, "file"), Active: rapid.Bool().Draw(t, "active"), Partition: guid,
			Number: rapid.Uint32().Draw(t, "number"), Start: rapid.Uint64().Draw(t, "start"), Size: rapid.Uint64().Draw(t, "size"),
		}
		b, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := efi.Decode(b)
		if err != nil || got != o {
			t.Errorf("Decode(Encode(%+v)) = %+v, %v", o, got, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	b, err := efi.Option{Label: "x", File: `\EFI\a`, Partition: guid}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{1, 0, 0, 0, 4, 0, 'a', 0, 0, 0, 4, 4, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := efi.Decode(b); err != nil && !errors.Is(err, errors.NotValid) {
			t.Errorf("Decode = %v, want NotValid", err)
		}
	})
}

func option(label string) efi.Option {
	return efi.Option{Label: label, Active: true, Partition: guid, Number: 1, Start: 2048, Size: 4096, File: `\EFI\x\grubx64.efi`}
}

func show(t *testing.T, v efi.Vars) string {
	t.Helper()
	all, err := v.Entries()
	if err != nil {
		t.Fatal(err)
	}
	order, err := v.Order()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v order %04X", all, order)
}

func TestCreateAndRemove(t *testing.T) {
	v := efi.NewVars(t.TempDir())
	for _, label := range []string{"first", "second"} {
		if _, err := v.Create(option(label)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := show(t, v), `[Boot0000 "first" Boot0001 "second"] order [0001 0000]`; got != want {
		t.Errorf("after two: %s, want %s", got, want)
	}
	if e, err := v.Create(option("first")); err != nil || e.ID != 0 {
		t.Errorf("the same again: %v, %v, want Boot0000", e, err)
	}
	if got, want := show(t, v), `[Boot0000 "first" Boot0001 "second"] order [0000 0001]`; got != want {
		t.Errorf("after the same again: %s, want %s", got, want)
	}
	if err := v.Remove(0); err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, v), `[Boot0001 "second"] order [0001]`; got != want {
		t.Errorf("after removal: %s, want %s", got, want)
	}
	if err := v.Remove(9); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestAnEntryThatCannotBeParsedIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "Boot0000-8be4df61-93ca-11d2-aa0d-00e098032b8c")
	if err := os.WriteFile(odd, []byte{7, 0, 0, 0, 1}, 0o600); err != nil {
		t.Fatal(err)
	}
	v := efi.NewVars(dir)
	e, err := v.Create(option("ours"))
	if err != nil || e.ID != 1 {
		t.Errorf("Create = %v, %v, want Boot0001 beside the odd one", e, err)
	}
	if b, err := os.ReadFile(odd); err != nil || len(b) != 5 {
		t.Errorf("the odd entry was touched: %v %v", b, err)
	}
}

func TestFindLoader(t *testing.T) {
	for _, tc := range []struct {
		name   string
		files  string
		arch   string
		vendor string
		want   string
	}{
		{"shim preferred", "EFI/debian/grubx64.efi EFI/debian/shimx64.efi EFI/BOOT/BOOTX64.EFI", "amd64", "", `\EFI\debian\shimx64.efi`},
		{"grub without a shim", "EFI/whatever/grubx64.efi EFI/BOOT/BOOTX64.EFI", "amd64", "", `\EFI\whatever\grubx64.efi`},
		{"other case, as FAT gives it", "efi/OPENSUSE/GRUBX64.EFI", "amd64", "", `\efi\OPENSUSE\GRUBX64.EFI`},
		{"of two vendors the system's", "EFI/alma/shimx64.efi EFI/rocky/shimx64.efi", "amd64", "rocky", `\EFI\rocky\shimx64.efi`},
		{"vendor unknown", "EFI/alma/shimx64.efi EFI/rocky/shimx64.efi", "amd64", "suse", `\EFI\alma\shimx64.efi`},
		{"fallback alone", "EFI/BOOT/BOOTX64.EFI", "amd64", "", `\EFI\BOOT\BOOTX64.EFI`},
		{"systemd-boot", "EFI/systemd/systemd-bootx64.efi EFI/BOOT/BOOTX64.EFI", "amd64", "", `\EFI\systemd\systemd-bootx64.efi`},
		{"arm64", "EFI/debian/grubaa64.efi EFI/debian/grubx64.efi", "arm64", "", `\EFI\debian\grubaa64.efi`},
		{"loader of another architecture", "EFI/debian/grubaa64.efi", "amd64", "", ""},
		{"no folder", "startup.nsh", "amd64", "", ""},
		{"a folder named like a loader", "EFI/debian/grubx64.efi/x", "amd64", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range strings.Fields(tc.files) {
				p := filepath.Join(dir, f)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := efi.FindLoader(dir, tc.arch, tc.vendor)
			if got != tc.want || (tc.want == "") != errors.Is(err, errors.NotFound) {
				t.Errorf("FindLoader = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	if _, err := efi.FindLoader(t.TempDir(), "riscv64", ""); !errors.Is(err, errors.NotSupported) {
		t.Errorf("FindLoader on riscv64 = %v, want NotSupported", err)
	}
}
