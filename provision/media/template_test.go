package media_test

import (
	"bytes"
	"debug/pe"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

// program writes an EFI program with an initramfs, and returns its path.
func program(t *testing.T, word string) string {
	t.Helper()
	dir := tree(t, map[string]string{"init": word})
	initrd, err := media.Initrd(media.Config{Installer: filepath.Join(dir, "init")})
	if err != nil {
		t.Fatal(err)
	}
	efi, err := media.UKI(stub(), []byte("KERNEL"), initrd, "quiet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "installer.efi")
	if err := os.WriteFile(path, efi, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// contents reads a medium whole.
func contents(t *testing.T, m *media.Medium, err error) ([]byte, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	b, err := io.ReadAll(m)
	if err != nil || int64(len(b)) != m.Size() {
		t.Fatalf("read %d bytes of %d, %v", len(b), m.Size(), err)
	}
	// Part by part it is the same, wherever a part begins.
	for _, at := range []int64{0, 1, m.Size() / 2, m.Size() - 70000} {
		part := make([]byte, 5001)
		if _, err := m.ReadAt(part, at); err != nil || !bytes.Equal(part, b[at:at+5001]) {
			t.Errorf("part at %d differs, %v", at, err)
		}
	}
	return b, m.ETag()
}

func TestTemplate(t *testing.T) {
	path, dir := program(t, "first"), t.TempDir()
	tmpl, err := media.NewTemplate(path, dir)
	if err != nil {
		t.Fatal(err)
	}
	one, two := *boot(), *boot()
	two.Host, two.Token = "host-8", "other"
	m, err := tmpl.ISO(one)
	a, tagA := contents(t, m, err)
	m, err = tmpl.ISO(two)
	b, tagB := contents(t, m, err)
	if got, err := media.ReadBoot(bytes.NewReader(a)); err != nil || got.Host != "host-7" || got.Token != "planted" {
		t.Errorf("boot file of the first medium: %v, %v", got, err)
	}
	if got, err := media.ReadBoot(bytes.NewReader(b)); err != nil || got.Host != "host-8" || len(a) != len(b) || tagA == tagB {
		t.Errorf("boot file of the second medium: %v, %v", got, err)
	}
	m, err = tmpl.Program(one)
	efi, _ := contents(t, m, err)
	f, err := pe.NewFile(bytes.NewReader(efi))
	if err != nil {
		t.Fatal(err)
	}
	initrd, err := f.Section(".initrd").Data()
	if err != nil || !bytes.Contains(initrd, []byte(`"token":"planted"`)) {
		t.Errorf("the program has no boot file in its initramfs, %v", err)
	}
	if got, err := media.ReadProgramBoot(bytes.NewReader(efi)); err != nil || got.Host != "host-7" || got.Token != "planted" {
		t.Errorf("boot file of the program: %v, %v", got, err)
	}
	m, err = tmpl.Generic()
	plain, tag := contents(t, m, err)
	if _, err := media.ReadProgramBoot(bytes.NewReader(plain)); !errors.Is(err, errors.NotFound) {
		t.Errorf("boot file of the program for all: %v, want none", err)
	}
	if bytes.Contains(plain, []byte("planted")) || len(plain) != len(efi) || tag == tagA {
		t.Error("the program for all has a host's boot file")
	}
	onDisk, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(onDisk) != 1 {
		t.Fatalf("files left: %v, %v", onDisk, err)
	}
	if text, err := os.ReadFile(onDisk[0]); err != nil || bytes.Contains(text, []byte("planted")) {
		t.Errorf("a token is on the disk, %v", err)
	}

	// Another process, or another controller, serves the same bytes under the same name.
	again, err := media.NewTemplate(path, dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err = again.ISO(one)
	if c, tagC := contents(t, m, err); !bytes.Equal(a, c) || tagA != tagC {
		t.Error("the same medium differs between two templates of one installer")
	}
	if _, err := media.NewTemplate(program(t, "second"), dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || left[0] == onDisk[0] {
		t.Errorf("files after another installer: %v", left)
	}
	if _, err := tmpl.ISO(one); err == nil {
		t.Error("a medium that is gone is served")
	}
}

func TestTemplateRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := media.CheckProgram(text); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "make installer-image") {
		t.Errorf("CheckProgram of a text = %v", err)
	}
	if err := media.CheckProgram(filepath.Join(dir, "none")); !errors.Is(err, errors.NotFound) {
		t.Errorf("CheckProgram of nothing = %v", err)
	}
	if err := media.CheckProgram(program(t, "x")); err != nil {
		t.Errorf("CheckProgram = %v", err)
	}
	if _, err := media.NewTemplate(text, dir); !errors.Is(err, errors.NotValid) {
		t.Errorf("NewTemplate of a text = %v", err)
	}
	efi, err := media.UKI(stub(), []byte("KERNEL"), []byte("an initramfs of others"), "quiet")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.efi")
	if err := os.WriteFile(other, efi, 0o600); err != nil {
		t.Fatal(err)
	}
	tmpl, err := media.NewTemplate(other, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Program(*boot()); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Program without room = %v", err)
	}
	if _, err := tmpl.ISO(config.Boot{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("ISO of an empty boot file = %v", err)
	}
	big := *boot()
	big.CA = strings.Repeat("x", 70000)
	if _, err := tmpl.ISO(big); !errors.Is(err, errors.NotValid) {
		t.Errorf("ISO of a boot file that is too long = %v", err)
	}
}

// whole reads a medium that is too small for contents.
func whole(t *testing.T, m *media.Medium, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	b, err := io.ReadAll(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheStandInServesAsAnInstaller(t *testing.T) {
	dir := t.TempDir()
	program, err := media.StandIn()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "installer.efi")
	if err := os.WriteFile(path, program, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := media.CheckProgram(path); err != nil {
		t.Errorf("CheckProgram = %v", err)
	}
	tmpl, err := media.NewTemplate(path, filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := tmpl.ISO(*boot())
	iso := whole(t, m, err)
	if got, err := media.ReadBoot(bytes.NewReader(iso)); err != nil || got.Host != "host-7" {
		t.Errorf("boot file of its medium: %v, %v", got, err)
	}
	m, err = tmpl.Program(*boot())
	efi := whole(t, m, err)
	if got, err := media.ReadProgramBoot(bytes.NewReader(efi)); err != nil || got.Host != "host-7" {
		t.Errorf("boot file of its program: %v, %v", got, err)
	}
	for name, broken := range map[string][]byte{"no program": []byte("MZ"), "cut": efi[:len(efi)/2], "no room": bytes.Replace(efi, []byte("slipway.json"), []byte("slipway.jsnn"), 1)} {
		if _, err := media.ReadProgramBoot(bytes.NewReader(broken)); err == nil {
			t.Errorf("%s: has a boot file", name)
		}
	}
}
