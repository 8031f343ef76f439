//go:build e2e

package packages_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
)

const (
	controller  = "slipway-controller.service"
	provisioner = "slipway-provisioner.service"
)

// One machine's way to a newer version and back, with its own systemd.
func TestUpgraded(t *testing.T) {
	t.Parallel()
	const older = "0.0.9"
	dir := t.TempDir()
	harness.Run(t, []string{"VERSION=" + older, "ARCHES=" + runtime.GOARCH, "PROGRAMS=" + filepath.Join(dir, "programs")},
		filepath.Join(cloned, "packaging/deb.sh"), filepath.Join(dir, "dist"))
	r := newRoot(t)
	newer := r.put(t, built)
	old := r.put(t, filepath.Join(dir, "dist"))
	m := r.boot(t)

	// Installed before there is a site: nothing to run, and no failure.
	m.must(t, append([]string{"dpkg", "--install"}, old...)...)
	for _, name := range []string{controller, provisioner} {
		if state, _ := m.unit(t, name); state != "inactive" {
			t.Errorf("%s is %s before there is a site", name, state)
		}
	}
	address := testport.Free(t, 1)[0]
	m.must(t, "runuser", "-u", "slipway", "--", "controllerd", "bootstrap", "--data-dir", "/var/lib/slipway", "--listen", address)
	m.must(t, "install", "-o", "slipway-provisioner", "-g", "slipway-provisioner", "-m", "600", "/var/lib/slipway/agents/machine-0.yaml", "/var/lib/slipway-provisioner/agent.yaml")
	m.must(t, "systemctl", "start", controller, provisioner) // hardened, and ready: they are of Type=notify
	slipway := func(args ...string) string {
		t.Helper()
		return m.must(t, append([]string{"env", "SLIPWAY_DATA=/var/lib/slipway/client", "slipway"}, args...)...)
	}
	slipway("add-space", "kept")
	settings := r.read(t, "etc/slipway/controllerd.env") + setting
	if err := os.WriteFile(r.path("etc/slipway/controllerd.env"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	m.must(t, "systemctl", "stop", provisioner)
	_, before := m.unit(t, controller)

	for _, step := range []struct {
		what, version string
		files         []string
	}{{"upgrade", "", newer}, {"downgrade", older, old}} {
		m.must(t, append([]string{"dpkg", "--install"}, step.files...)...)
		version := strings.TrimSpace(m.must(t, "dpkg-query", "-W", "-f", "${Version}", "slipway-controller"))
		if step.version != "" && version != step.version || step.version == "" && version == older {
			t.Fatalf("after the %s the version is %s", step.what, version)
		}
		state, pid := m.unit(t, controller)
		if state != "active" || pid == before {
			t.Errorf("after the %s the controller is %s, as process %s, which was %s", step.what, state, pid, before)
		}
		if got := m.must(t, "/proc/"+pid+"/exe", "version"); got != "controllerd "+version+"\n" {
			t.Errorf("after the %s what runs is %q, want version %s", step.what, got, version)
		}
		before = pid
		if state, _ := m.unit(t, provisioner); state != "inactive" {
			t.Errorf("after the %s the provisioner, which somebody had stopped, is %s", step.what, state)
		}
		if got := r.read(t, "etc/slipway/controllerd.env"); got != settings {
			t.Errorf("after the %s the settings are\n%s", step.what, got)
		}
		if got := slipway("spaces"); !strings.Contains(got, "kept") {
			t.Errorf("after the %s the site does not know what it knew: %s", step.what, got)
		}
	}

	// Removed, services stop; installed again, they start as they did.
	m.must(t, append([]string{"dpkg", "--remove"}, packages...)...)
	if state, _ := m.unit(t, controller); state != "inactive" {
		t.Errorf("after the removal the controller is %s", state)
	}
	m.must(t, append([]string{"dpkg", "--install"}, newer...)...)
	for _, name := range []string{controller, provisioner} {
		if state, _ := m.unit(t, name); state != "active" {
			t.Errorf("installed again, %s is %s", name, state)
		}
	}
	m.must(t, append([]string{"dpkg", "--purge"}, packages...)...)
	if out, err := m.do("systemctl", "cat", controller); err == nil {
		t.Errorf("after the purge systemd still knows:\n%s", out)
	}
	if r.exists("var/lib/slipway") || r.exists("etc/slipway") {
		t.Error("after the purge there is state left")
	}
}

// put copies the packages of this machine's architecture that are in a folder into
// the root, and returns what they are called there.
func (r root) put(t *testing.T, from string) (files []string) {
	t.Helper()
	for _, name := range packages {
		found, err := filepath.Glob(filepath.Join(from, name+"_*_"+runtime.GOARCH+".deb"))
		if err != nil || len(found) != 1 {
			t.Fatalf("of %s there are %q, %v", name, found, err)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		file := "var/cache/" + filepath.Base(found[0])
		if err := os.WriteFile(r.path(file), b, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, "/"+file)
	}
	return files
}
