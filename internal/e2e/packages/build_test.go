//go:build e2e

package packages_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/golden"
)

// built is the folder with what was built first, for all architectures, and cloned
// the one with the sources of that.
var built, cloned string

// machines are the architectures that there are packages for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// packages are what is made for each.
var packages = []string{"slipway", "slipway-controller", "slipway-provisioner"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built, cloned = filepath.Join(dir, "dist"), filepath.Join(dir, "one")
	if err := build("../../..", cloned, built, "amd64 arm64"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build clones the sources that are in one folder into another, which is not there
// yet, and builds archives and packages from them.
func build(from, sources, out, arches string, env ...string) error {
	env = append(env, "ARCHES="+arches, "PROGRAMS="+sources+".programs", "VERSION=", "SOURCE_DATE_EPOCH=")
	for _, line := range [][]string{
		{"git", "clone", "-q", from, sources},
		{filepath.Join(sources, "packaging/dist.sh"), out},
		{filepath.Join(sources, "packaging/deb.sh"), out},
	} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", line, err, text)
		}
	}
	return nil
}

// deb returns the file of a package.
func deb(t *testing.T, name, arch string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(built, name+"_*_"+arch+".deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("of %s for %s there are %q, %v", name, arch, found, err)
	}
	return found[0]
}

// sum returns the SHA-256 of a file.
func sum(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// The same sources give the same bytes in another folder and at another time. The
// long form compiles all of it anew, with SOAK.
func TestReproducible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	arches, env := "amd64", []string{"HOME=" + dir}
	if os.Getenv("SOAK") != "" {
		arches, env = "amd64 arm64", append(env, "GOCACHE="+filepath.Join(dir, "cache"))
	} else if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		env = append(env, "GOCACHE="+strings.TrimSpace(string(out)))
	}
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, "GOMODCACHE="+strings.TrimSpace(string(out)))
	again := filepath.Join(dir, "again")
	if err := build(cloned, filepath.Join(dir, "a folder with another name"), again, arches, env...); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(again, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := 5*len(strings.Fields(arches)) + 1; len(files) != want {
		t.Fatalf("built are %q, want %d files", files, want)
	}
	sums, err := os.ReadFile(filepath.Join(built, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "SHA256SUMS" {
			continue
		}
		first, second := sum(t, filepath.Join(built, name)), sum(t, file)
		if first != second {
			t.Errorf("%s differs: first %s, then %s", name, first, second)
		}
		if strings.HasSuffix(name, ".tar.gz") && !strings.Contains(string(sums), first+"  "+name+"\n") {
			t.Errorf("SHA256SUMS does not have %s, whose sum is %s:\n%s", name, first, sums)
		}
	}
}

// What is in the packages is the same for all architectures, but for the programs,
// which are static ones of that architecture.
func TestContents(t *testing.T) {
	size := regexp.MustCompile(` +\d+ \d{4}-\d\d-\d\d \d\d:\d\d `)
	page := regexp.MustCompile(`(?m)^-rw-r--r-- root/root \./usr/share/man/man[18]/.*\.gz\n`) // one for each command
	changing := regexp.MustCompile(`(?m)^(Version|Installed-Size|Architecture): .*\n`)
	for arch := range machines {
		for _, name := range packages {
			file := deb(t, name, arch)
			listed, err := exec.Command("dpkg-deb", "-c", file).Output()
			if err != nil {
				t.Fatal(err)
			}
			fields, err := exec.Command("dpkg-deb", "-f", file).Output()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(fields), "\nArchitecture: "+arch+"\n") {
				t.Errorf("%s is not for %s:\n%s", file, arch, fields)
			}
			golden.Check(t, name+".golden", changing.ReplaceAllString(string(fields), "")+"\n"+page.ReplaceAllString(size.ReplaceAllString(string(listed), " "), ""))
			data, err := exec.Command("dpkg-deb", "--fsys-tarfile", file).Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := checkPrograms(t, bytes.NewReader(data), machines[arch]); got != 1 {
				t.Errorf("%s has %d programs, want 1", file, got)
			}
		}
	}
}

// checkPrograms checks the programs in an archive and returns how many there are.
func checkPrograms(t *testing.T, archive io.Reader, machine elf.Machine) (n int) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || !slices.Contains([]string{"controllerd", "provisionerd", "slipway"}, path.Base(h.Name)) || h.Mode&0o111 == 0 {
			continue
		}
		n++
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine {
			t.Errorf("%s is for %v, want %v", h.Name, f.Machine, machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", h.Name)
			}
		}
	}
}

// The archives have programs for their architecture, too.
func TestArchives(t *testing.T) {
	for arch, machine := range machines {
		for pattern, want := range map[string]int{"slipway-[0-9]*": 3, "slipway-agent-*": 1} {
			found, err := filepath.Glob(filepath.Join(built, pattern+"-linux-"+arch+".tar.gz"))
			if err != nil || len(found) != 1 {
				t.Fatalf("of %s for %s there are %q, %v", pattern, arch, found, err)
			}
			f, err := os.Open(found[0])
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := checkPrograms(t, z, machine); got != want {
				t.Errorf("%s has %d programs, want %d", found[0], got, want)
			}
		}
	}
}

// Debian's own checker finds no error in the packages. What it is told to pass over is
// in packaging/deb.sh.
func TestLintian(t *testing.T) {
	t.Parallel()
	line := []string{"--fail-on", "error,warning", "--allow-root"}
	for _, name := range packages {
		line = append(line, deb(t, name, "amd64"))
	}
	if out, err := exec.Command("lintian", line...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The scripts are sound, those that run on other people's machines as well.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	line := []string{"shellcheck", "-x", "packaging/dist.sh", "packaging/deb.sh", "packaging/common.sh"}
	for _, name := range packages[1:] {
		to := filepath.Join(dir, name)
		if out, err := exec.Command("dpkg-deb", "-e", deb(t, name, "amd64"), to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
			line = append(line, filepath.Join(to, script))
		}
	}
	cmd := exec.Command(line[0], append([]string{"--exclude=SC2050"}, line[1:]...)...) // the package's name is put in
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
