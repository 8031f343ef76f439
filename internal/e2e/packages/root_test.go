//go:build e2e

package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// entering is run in a mount namespace of its own: it enters the root $1 with what
// programs want of a kernel.
const entering = `set -e
root=$1
shift
mount -t proc proc "$root/proc"
for d in null zero full random urandom; do
	: >>"$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"`

// root is a folder that a small Debian is installed in.
type root string

// inside returns what a program is run with that is to see the root alone.
func (r root) inside() []string {
	return []string{"unshare", "--mount", "sh", "-c", entering, "enter", string(r)}
}

// try runs a program in the root and returns what it printed.
func (r root) try(args ...string) (string, error) {
	line := append(r.inside(), args...)
	out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	return string(out), err
}

// run runs a program in the root, which has to succeed.
func (r root) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.try(args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

// path returns where this machine sees a file of the root.
func (r root) path(name string) string { return filepath.Join(string(r), name) }

// read returns what is in a file of the root.
func (r root) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// exists reports whether there is a file in the root.
func (r root) exists(name string) bool {
	_, err := os.Lstat(r.path(name))
	return err == nil
}

// all returns all files and folders of the root that stay there.
func (r root) all(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, top := range []string{"etc", "usr", "var"} {
		err := filepath.WalkDir(r.path(top), func(path string, _ os.DirEntry, err error) error {
			found[strings.TrimPrefix(path, string(r)+"/")] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// newRoot lays out a root.
func newRoot(t *testing.T) root {
	t.Helper()
	r := root(filepath.Join(t.TempDir(), "root"))
	for _, dir := range []string{"usr", "proc", "dev", "run", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(r.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} { // those that are links into usr
		to, err := os.Readlink("/" + name)
		if err != nil {
			continue
		}
		if err := os.MkdirAll(r.path("usr/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, r.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	installed := readInstalled(t)
	var status strings.Builder
	list := filepath.Join(t.TempDir(), "list")
	var paths []string
	for _, p := range installed.closure(t, "systemd", "passwd", "bash-completion") {
		status.WriteString(p.entry + "\n\n")
		paths = append(paths, r.adopt(t, p)...)
	}
	for name, text := range map[string]string{
		list:                               strings.Join(paths, "\x00"),
		r.path("var/lib/dpkg/status"):      status.String(),
		r.path("var/lib/dpkg/info/format"): "1\n", // files of packages for several architectures have the architecture in their names
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	harness.Run(t, nil, "sh", "-c", `tar -C / -c --no-recursion --null -T "$1" | tar -C "$2" -x --keep-directory-symlink`, "copy", list, string(r))
	r.settle(t)
	return r
}

// adopt takes over what dpkg knows of a package and returns its files, but for
// those that only people read.
func (r root) adopt(t *testing.T, p pkg) (paths []string) {
	t.Helper()
	infos, err := filepath.Glob("/var/lib/dpkg/info/" + p.name + ".*")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("/var/lib/dpkg/info/" + p.name + ":*")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range append(infos, more...) {
		b, err := os.ReadFile(info)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.path(info), b, 0o755); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(info) != ".list" {
			continue
		}
		for path := range strings.Lines(string(b)) {
			path = strings.TrimPrefix(strings.TrimSpace(path), "/")
			fi, err := os.Lstat("/" + path)
			if path == "." || err != nil || isLink(r.path(path)) { // some are left out of small images
				continue
			}
			people := slices.ContainsFunc([]string{"doc/", "man/", "locale/", "info/"}, func(s string) bool { return strings.HasPrefix(path, "usr/share/"+s) })
			if !people || fi.IsDir() {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

func isLink(path string) bool {
	_, err := os.Readlink(path)
	return err == nil
}

// settle does what the packages' own scripts would have done, as far as it is
// needed here.
func (r root) settle(t *testing.T) {
	t.Helper()
	// What runuser goes by, without the questions that pam-auth-update asks.
	for _, kind := range []string{"auth", "account", "password", "session"} {
		if err := os.WriteFile(r.path("etc/pam.d/common-"+kind), []byte(kind+" required pam_unix.so\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"etc/passwd":        r.read(t, "usr/share/base-passwd/passwd.master"),
		"etc/group":         r.read(t, "usr/share/base-passwd/group.master"),
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
	} {
		if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"usr/bin/sh": "dash", "dev/fd": "/proc/self/fd"} {
		if err := os.Symlink(to, r.path(name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	r.run(t, "ldconfig")
	r.run(t, "pwconv")
	if out := r.run(t, "dpkg", "--audit"); out != "" {
		t.Fatalf("the root is not sound:\n%s", out)
	}
}

// pkg is one of Debian's packages that this machine has.
type pkg struct {
	name, entry string
	fields      map[string]string
}

// installed is what this machine has, by the names that packages have or provide.
type installed map[string]pkg

func readInstalled(t *testing.T) installed {
	t.Helper()
	b, err := os.ReadFile("/var/lib/dpkg/status")
	if err != nil {
		t.Fatal(err)
	}
	all := installed{}
	var provided []pkg
	for entry := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		p := pkg{entry: entry, fields: map[string]string{}}
		for line := range strings.Lines(entry) {
			if key, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				p.fields[key] = strings.TrimSpace(value)
			}
		}
		p.name = p.fields["Package"]
		if strings.HasSuffix(p.fields["Status"], " ok installed") {
			all[p.name] = p
			provided = append(provided, p)
		}
	}
	for _, p := range provided {
		for _, name := range names(p.fields["Provides"]) {
			if _, ok := all[name[0]]; !ok {
				all[name[0]] = p
			}
		}
	}
	return all
}

// names returns the packages of a relation, each with its alternatives.
func names(relation string) (out [][]string) {
	for one := range strings.SplitSeq(relation, ",") {
		var alternatives []string
		for name := range strings.SplitSeq(one, "|") {
			if f := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" (:", r) }); len(f) > 0 {
				alternatives = append(alternatives, f[0])
			}
		}
		if len(alternatives) > 0 {
			out = append(out, alternatives)
		}
	}
	return out
}

// closure returns all essential packages, the named ones, and what they depend on.
func (all installed) closure(t *testing.T, wanted ...string) (out []pkg) {
	t.Helper()
	for name, p := range all {
		if p.fields["Essential"] == "yes" && p.name == name {
			wanted = append(wanted, name)
		}
	}
	taken := map[string]bool{}
	for len(wanted) > 0 {
		p, ok := all[wanted[0]]
		if !ok {
			t.Fatalf("this machine lacks the package %s", wanted[0])
		}
		wanted = wanted[1:]
		if taken[p.name] {
			continue
		}
		taken[p.name] = true
		out = append(out, p)
		for _, alternatives := range append(names(p.fields["Pre-Depends"]), names(p.fields["Depends"])...) {
			i := slices.IndexFunc(alternatives, func(name string) bool { _, ok := all[name]; return ok })
			wanted = append(wanted, alternatives[max(i, 0)])
		}
	}
	return out
}
