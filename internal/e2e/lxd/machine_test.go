//go:build e2e

package lxd_test

import (
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

const agentFile = "/var/lib/slipway/agent.yaml"

func TestMachineFromOrderToEnd(t *testing.T) {
	s := newSite(t)
	id := s.add("--constraints", "cores=1 mem=256M")
	s.waitFor("started", id)

	shown := s.slipway("show-machine", id)
	for _, want := range []string{"198.51.100.7", "arch=amd64 cores=1 mem=256M availability-zone=local"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show-machine says %q, want %q in it", shown, want)
		}
	}
	name, status, err := s.container(id)
	if err != nil || status != rest.Running {
		t.Fatalf("container %s is %s, %v", name, status, err)
	}
	limits := daemon.must(t, "config", "get", "--project", s.project, name, "limits.memory")
	if strings.TrimSpace(limits) != "256MiB" {
		t.Errorf("limits.memory = %q", limits)
	}
	checkSecrets(s, id, name)

	s.slipway("remove-machine", id)
	s.waitFor("gone", id)
	if left := daemon.containers(t, s.project); len(left) != 0 {
		t.Errorf("containers %q are left", left)
	}
	if out := s.slipway("machines"); strings.Contains(out, "slipway-") {
		t.Errorf("machines says %q", out)
	}
}

// checkSecrets checks that a machine's agent file is for root alone, that its
// password is the agent's own, and that nobody else has it.
func checkSecrets(s *site, id, name string) {
	s.Helper()
	if mode, err := s.exec(id, "/bin/stat", "-c", "%a %u", agentFile); err != nil || strings.TrimSpace(mode) != "600 0" {
		s.Errorf("agent file has mode and owner %q, %v, want 600 0", mode, err)
	}
	text, err := s.exec(id, "/bin/cat", agentFile)
	if err != nil || !strings.Contains(text, "own-password: true") || strings.Contains(text, "next-password") {
		s.Fatalf("agent file without an own password, %v", err)
	}
	var password string
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "password: "); ok {
			password = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	if len(password) < 24 {
		s.Fatalf("the agent's own password has %d characters", len(password))
	}
	agentLog, err := s.exec(id, "/bin/cat", "/var/log/agent.log")
	if err != nil {
		s.Error(err)
	}
	seen := map[string]string{
		"the agent's log":              agentLog,
		"the container's settings":     daemon.must(s.T, "config", "show", "--expanded", "--project", s.project, name),
		"what the operator sees":       s.slipway("show-machine", id, "--format", "json"),
		"what all the operator's sees": s.slipway("status", "--format", "json"),
	}
	for _, p := range []*harness.Process{s.controller, s.worker} {
		seen["the log of "+p.Name()] = p.Printed()
	}
	for where, content := range seen {
		if strings.Contains(content, password) {
			s.Errorf("the agent's password is in %s", where)
		}
	}
}

// What people do to containers is seen, never undone, and no hindrance.
func TestContainersChangedBehindOurBack(t *testing.T) {
	s := newSite(t)
	stopped, deleted := s.add(), s.add()
	s.waitFor("started", stopped, deleted)
	name, _, err := s.container(stopped)
	if err != nil {
		t.Fatal(err)
	}
	daemon.must(t, "stop", "--force", "--project", s.project, name)
	other, _, err := s.container(deleted)
	if err != nil {
		t.Fatal(err)
	}
	daemon.must(t, "delete", "--force", "--project", s.project, other)
	s.until("both are shown as down", func() bool {
		return strings.Count(s.slipway("machines"), "down") == 2
	})
	if _, status, err := s.container(stopped); err != nil || status != rest.Stopped {
		t.Errorf("the stopped container is %s, %v", status, err)
	}
	if _, _, err := s.container(deleted); err != errNone {
		t.Errorf("the deleted container: %v, want none", err)
	}
	s.slipway("remove-machine", stopped, deleted, "--force")
	s.waitFor("gone", stopped, deleted)
	if left := daemon.containers(t, s.project); len(left) != 0 {
		t.Errorf("containers %q are left", left)
	}
}

func TestMissingImageIsSaidAndMended(t *testing.T) {
	s := newSite(t)
	s.slipway("model-config", "lxd-image=no-such-image")
	id := s.add()
	s.until("the machine says what is wrong", func() bool {
		return strings.Contains(s.slipway("show-machine", id), `no image "no-such-image"`)
	})
	s.slipway("model-config", "lxd-image=base")
	s.slipway("retry-provisioning", id)
	s.waitFor("started", id)
	s.slipway("remove-machine", id)
	s.waitFor("gone", id)
}
