//go:build e2e

package packages_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The worst exposure that a service may have, in tenths, as systemd-analyze counts
// it: 100 is a service that may do everything.
const exposure = 20

// One life of the packages on a machine, from the first installation to the end.
func TestInstalled(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	before := r.all(t)
	steps := []struct {
		name string
		step func(*testing.T, root)
	}{
		{"Install", install},
		{"Files", files},
		{"Users", users},
		{"Units", units},
		{"Completions", completions},
		{"Pages", pages},
		{"Serve", serve},
		{"Remove", remove},
		{"Reinstall", reinstall},
		{"Purge", purge},
		{"NothingElse", func(t *testing.T, r root) { nothingElse(t, before, r.all(t)) }},
		{"WithoutSysusers", withoutSysusers},
	}
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { s.step(t, r) }) {
			return
		}
	}
}

// install puts all packages of this machine's architecture on.
func install(t *testing.T, r root) {
	line := []string{"dpkg", "--install"}
	for _, name := range packages {
		b, err := os.ReadFile(deb(t, name, runtime.GOARCH))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.path("run/"+name+".deb"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		line = append(line, "/run/"+name+".deb")
	}
	out := r.run(t, line...)
	if strings.Contains(strings.ToLower(out), "warning") {
		t.Errorf("dpkg warns:\n%s", out)
	}
	t.Log(out)
}

// files checks that all files are there as they were packed: content, mode, owner.
func files(t *testing.T, r root) {
	for _, name := range packages {
		if out := r.run(t, "dpkg", "--verify", name); out != "" {
			t.Errorf("%s is not as it was packed:\n%s", name, out)
		}
		data, err := exec.Command("dpkg-deb", "--fsys-tarfile", deb(t, name, runtime.GOARCH)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			checkFile(t, r.path(h.Name), h.FileInfo().Mode())
		}
	}
	want := "controllerd " + r.run(t, "dpkg-query", "-W", "-f", "${Version}", "slipway-controller") + "\n"
	if got := r.run(t, "controllerd", "version"); got != want {
		t.Errorf("it says it is %q, want %q", got, want)
	}
}

// checkFile checks that there is a file of root's with a mode.
func checkFile(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if fi.Mode() != mode {
		t.Errorf("%s has mode %v, want %v", path, fi.Mode(), mode)
	}
	if s := fi.Sys().(*syscall.Stat_t); s.Uid != 0 || s.Gid != 0 {
		t.Errorf("%s belongs to %d:%d", path, s.Uid, s.Gid)
	}
}

// users checks the services' users, and the folders that are theirs alone.
func users(t *testing.T, r root) {
	for user, home := range map[string]string{"slipway": "/var/lib/slipway", "slipway-provisioner": "/var/lib/slipway-provisioner"} {
		line := regexp.MustCompile(`(?m)^` + user + `:x:[1-9]\d\d:[1-9]\d\d:Slipway:` + home + `:/usr/sbin/nologin$`)
		if got := r.read(t, "etc/passwd"); !line.MatchString(got) {
			t.Errorf("there is no user %s of a system's kind:\n%s", user, got)
		}
		if got := r.run(t, "stat", "-c", "%A %U:%G", home); got != "drwx------ "+user+":"+user+"\n" {
			t.Errorf("%s is %s", home, got)
		}
	}
}

// units checks that systemd understands the services, that they may do little, and
// that they are started when the machine is.
func units(t *testing.T, r root) {
	for _, service := range []string{"slipway-controller.service", "slipway-provisioner.service"} {
		file := "/usr/lib/systemd/system/" + service
		if out := r.run(t, "systemd-analyze", "verify", "--man=no", file); strings.Contains(out, "slipway") {
			t.Errorf("systemd complains:\n%s", out)
		}
		out := r.run(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+strconv.Itoa(exposure), file)
		t.Log(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
		if !r.exists("etc/systemd/system/multi-user.target.wants/" + service) {
			t.Errorf("%s is not enabled", service)
		}
	}
}

// completions loads what completes commands, and completes one.
func completions(t *testing.T, r root) {
	got := r.run(t, "bash", "-c", `. /usr/share/bash-completion/bash_completion
. /usr/share/bash-completion/completions/slipway
complete -p slipway
COMP_WORDS=(slipway add-mach) COMP_CWORD=1 COMP_LINE='slipway add-mach' COMP_POINT=16 COMP_TYPE=9 COMP_KEY=9
# Outside of a real completion it cannot set options, and says so.
__start_slipway slipway 2>/dev/null
echo "${COMPREPLY[@]}"`)
	if !strings.Contains(got, "__start_slipway slipway\n") || !strings.Contains(got, "\nadd-machine") {
		t.Errorf("bash completes:\n%s", got)
	}
	for file, want := range map[string]string{"zsh/vendor-completions/_slipway": "#compdef slipway\n", "fish/vendor_completions.d/slipway.fish": "complete -c slipway "} {
		if got := r.read(t, "usr/share/"+file); !strings.Contains(got, want) {
			t.Errorf("%s does not have %q", file, want)
		}
	}
}

// pages renders all manual pages, of which man has to find nothing to say.
func pages(t *testing.T, r root) {
	found, err := filepath.Glob(r.path("usr/share/man/man*/*.gz"))
	if err != nil || len(found) < 20 {
		t.Fatalf("there are %d pages, %v", len(found), err)
	}
	for _, page := range found {
		cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", page)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=100")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), "NAME") {
			t.Errorf("man %s: %v\n%s", filepath.Base(page), err, stderr.String())
		}
	}
	t.Logf("%d pages", len(found))
}

// kept are files that removing leaves alone, and purging takes away.
var kept = []string{"var/lib/slipway/controller.yaml", "var/lib/slipway-provisioner/agent.yaml", "var/log/slipway/audit.log", "etc/slipway/controllerd.env", "etc/slipway/provisionerd.env"}

// setting is what somebody has changed in the settings.
const setting = "\n# Ours.\nSLIPWAY_LOGGING_CONFIG=<root>=DEBUG\n"

// remove removes the packages: programs go, state and settings stay.
func remove(t *testing.T, r root) {
	settings := r.read(t, "etc/slipway/controllerd.env") + setting
	if err := os.WriteFile(r.path("etc/slipway/controllerd.env"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	r.run(t, append([]string{"dpkg", "--remove"}, packages...)...)
	for _, name := range kept {
		if !r.exists(name) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range []string{"usr/bin/controllerd", "usr/bin/provisionerd", "usr/bin/slipway", "usr/lib/systemd/system/slipway-controller.service", "usr/lib/sysusers.d/slipway-controller.conf"} {
		if r.exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// reinstall puts the packages on again: the site is as it was.
func reinstall(t *testing.T, r root) {
	install(t, r)
	if got := r.read(t, "etc/slipway/controllerd.env"); !strings.HasSuffix(got, setting) {
		t.Errorf("the settings are overwritten:\n%s", got)
	}
	users(t, r)
	units(t, r)
	c := r.service(t, "slipway-controller")
	c.start(t)
	c.stop(t)
}

// purge removes all that the packages have left, but what is not theirs.
func purge(t *testing.T, r root) {
	agents := []string{"var/lib/slipway/agent.yaml", "var/lib/slipway/agent/state"} // of an agent on the same machine
	if err := os.Mkdir(r.path("var/lib/slipway/agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range agents {
		if err := os.WriteFile(r.path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.run(t, append([]string{"dpkg", "--purge"}, packages...)...)
	for _, name := range append(kept, "etc/slipway", "var/log/slipway", "var/lib/slipway-provisioner", "var/lib/slipway/agents", "etc/systemd/system/multi-user.target.wants/slipway-controller.service") {
		if r.exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range agents {
		if !r.exists(name) {
			t.Errorf("%s is gone", name)
		}
	}
	if out, err := r.try("dpkg", "--status", "slipway-controller"); err == nil {
		t.Errorf("dpkg still knows of the package:\n%s", out)
	}
}

// staying is what is there after a purge and was not before the installation: what
// an agent of the same machine has, the services' users, and what dpkg has noted.
var staying = regexp.MustCompile(`^(var/lib/slipway(/agent(\.yaml|/state)?)?|etc/(passwd|group|shadow|gshadow)-?|etc/\.pwd\.lock|var/log/dpkg\.log|var/lib/dpkg/.*)$`)

// nothingElse checks that a purge takes away what the packages have brought, and
// nothing else.
func nothingElse(t *testing.T, before, after map[string]bool) {
	for path := range before {
		if !after[path] {
			t.Errorf("%s is gone, and was there before", path)
		}
	}
	for path := range after {
		if !before[path] && !staying.MatchString(path) {
			t.Errorf("%s is left", path)
		}
	}
}

// withoutSysusers installs where there is no systemd-sysusers.
func withoutSysusers(t *testing.T, r root) {
	if err := os.Rename(r.path("usr/bin/systemd-sysusers"), r.path("usr/bin/none")); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"slipway", "slipway-provisioner"} {
		r.run(t, "userdel", user)
	}
	if err := os.RemoveAll(r.path("var/lib/slipway")); err != nil {
		t.Fatal(err)
	}
	r.run(t, "dpkg", "--install", "/run/slipway-controller.deb", "/run/slipway-provisioner.deb")
	got := r.read(t, "etc/passwd")
	for user, home := range map[string]string{"slipway": "/var/lib/slipway", "slipway-provisioner": "/var/lib/slipway-provisioner"} {
		if !regexp.MustCompile(`(?m)^` + user + `:x:[1-9]\d\d:[1-9]\d\d::` + home + `:/usr/sbin/nologin$`).MatchString(got) {
			t.Errorf("there is no user %s:\n%s", user, got)
		}
	}
}
