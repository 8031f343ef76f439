//go:build e2e

package lxd_test

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/userdata"
)

// quick gives new versions of the agent less time than they usually have: the one
// that uses it up never logs in.
const quick = `d=/etc/systemd/system/slipway-agent.service.d
mkdir $d
printf '[Service]\nExecStart=\nExecStart=%s --upgrade-deadline 2s\n' "$0" >$d/quick.conf
systemctl daemon-reload
systemctl restart slipway-agent`

// The agent's own service runs under a real systemd: it upgrades itself in its
// place, which systemd does not notice, and is found upgraded when systemd starts
// it anew. Versions that do not work leave it as it is.
func TestUpgradeUnderSystemd(t *testing.T) {
	t.Parallel()
	server := another(t, nil)
	server.importSystem(t, "")
	s := newStaticSite(t, server)
	s.slipway("model-config", "lxd-image=system", "lxd-profiles=default,system")
	const good, crashing, hanging = "9.9.9001", "9.9.9002", "9.9.9003"
	s.offer(good, "cmd/provisionerd", "internal/buildinfo.Version="+good)
	id := s.add("--base", "debian@12")
	s.waitFor("started", id)
	main := s.service(id, "MainPID")

	s.slipway("upgrade-agents", "--version", good)
	s.runs(id, good)
	if now := s.service(id, "MainPID", "NRestarts", "ActiveState"); now != main+" 0 active" {
		t.Errorf("the service is %q, want it to be process %s, active and never restarted", now, main)
	}
	if _, err := s.exec(id, "systemctl", "kill", "--signal", "KILL", "slipway-agent"); err != nil {
		t.Fatal(err)
	}
	s.until("systemd has started the agent again", func() bool { return strings.HasSuffix(s.service(id, "NRestarts", "ActiveState"), "1 active") })
	s.runs(id, good)

	main = s.service(id, "MainPID")
	const bad = "internal/e2e/upgrade/testdata/bad"
	s.offer(crashing, bad, "main.version="+crashing, "main.fault=crash")
	s.slipway("upgrade-agents", "--version", crashing)
	s.says(id, "cannot upgrade to "+crashing+": it ended (exit status 2) before it had logged in")
	if now := s.service(id, "MainPID"); now != main {
		t.Errorf("the service is process %s, and was %s", now, main)
	}
	if _, err := s.exec(id, "sh", "-c", quick, strings.Join(userdata.Command(), " ")); err != nil {
		t.Fatal(err)
	}
	s.offer(hanging, bad, "main.version="+hanging, "main.fault=hang")
	s.slipway("upgrade-agents", "--version", hanging)
	s.says(id, "cannot upgrade to "+hanging+": it did not log in within 2s")
	s.runs(id, good)
}

// service returns what systemd says of the agent's service in a machine.
func (s *site) service(id string, properties ...string) string {
	s.Helper()
	var said []string
	for _, p := range properties {
		out, err := s.exec(id, "systemctl", "show", "--value", "--property", p, "slipway-agent")
		if err != nil {
			s.Fatal(err)
		}
		said = append(said, strings.TrimSpace(out))
	}
	return strings.Join(said, " ")
}

// runs waits until a machine's agent has logged in as a version, which the
// machine starts next time as well.
func (s *site) runs(id, version string) {
	s.Helper()
	s.says(id, `"`+version+`-bookworm-amd64"`)
	s.until("the machine would start "+version, func() bool {
		out, err := s.exec(id, userdata.AgentPath, "version")
		return err == nil && strings.Contains(out, version)
	})
}

// says waits until a machine's status has a text.
func (s *site) says(id, text string) {
	s.Helper()
	var said string
	defer func() {
		if s.Failed() {
			s.Log(said)
		}
	}()
	s.until("the status of machine "+id+" says "+text, func() bool {
		said = s.slipway("show-machine", id, "--format", "json")
		return strings.Contains(said, text)
	})
}

// offer builds a program of ours, with variables set, and uploads it as a version
// of the agent for Debian 12.
func (s *site) offer(version, program string, variables ...string) {
	s.Helper()
	const module = "github.com/slipway-project/slipway/"
	flags := "-s -w"
	for _, v := range variables {
		if !strings.HasPrefix(v, "main.") {
			v = module + v
		}
		flags += " -X " + v
	}
	path := filepath.Join(s.TempDir(), "program")
	cmd := exec.Command("go", "build", "-ldflags", flags, "-o", path, module+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("cannot build %s: %v\n%s", program, err, out)
	}
	s.uploadAgent(version+"-bookworm-amd64", path)
}

// uploadAgent puts an agent into the controller as a package for a version.
func (s *site) uploadAgent(version, path string) {
	s.Helper()
	program, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.TempDir(), "agent.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		s.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "provisionerd", Mode: 0o755, Size: int64(len(program))}); err != nil {
		s.Fatal(err)
	}
	for _, err := range []error{func() error { _, err := w.Write(program); return err }(), w.Close(), z.Close()} {
		if err != nil {
			s.Fatal(err)
		}
	}
	s.slipway("upload-agent", file, "--version", version)
}
