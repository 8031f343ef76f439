//go:build e2e

package lxd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// TestContainerOnAMachine has a machine's own agent provision a container on the
// LXD server that the machine itself runs on, whose socket is handed in. It works
// where containers in containers are refused; TestContainersInsideAMachine has those.
func TestContainerOnAMachine(t *testing.T) {
	s := newSite(t)
	host := s.add()
	s.waitFor("started", host)
	name, _, err := s.container(host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.exec(host, "/bin/busybox", "mkdir", "-p", "/var/lib/lxd"); err != nil {
		t.Fatal(err)
	}
	daemon.must(t, "config", "device", "add", "--project", s.project, name, "lxd", "proxy", "bind=instance",
		"listen=unix:/var/lib/lxd/unix.socket", "connect=unix:"+filepath.Join(daemon.state(), "unix.socket"), "mode=0600")
	// The agent looks for LXD when it connects.
	if _, err := s.exec(host, "/bin/killall", "-9", "provisionerd"); err != nil {
		t.Fatal(err)
	}
	out := strings.Fields(s.persist("add-machine", "--to", "lxd:"+host))
	id := out[len(out)-1]
	if id != host+"/lxd/0" {
		t.Fatalf("add-machine --to lxd:%s says %q", host, out)
	}
	s.waitFor("started", id)
	inside, status, err := s.container(id)
	if err != nil || status != rest.Running || !strings.HasSuffix(inside, "-"+host+"-lxd-0") {
		t.Errorf("container %q of %s is %s, %v", inside, id, status, err)
	}

	// A host that is started anew finds its container again.
	daemon.must(t, "restart", "--force", "--project", s.project, name)
	s.until("the agent of the host is back", func() bool {
		text, err := s.exec(host, "/bin/cat", "/var/log/agent.log")
		return err == nil && strings.Count(text, "is connected to") >= 3
	})
	if all := daemon.containers(t, s.project); len(all) != 2 {
		t.Errorf("containers %q, want the host and its container", all)
	}

	if out, err := s.try("remove-machine", host); err == nil {
		t.Errorf("a host with a container can be removed: %s", out)
	}
	s.persist("remove-machine", id)
	s.waitFor("gone", id)
	s.persist("remove-machine", host)
	s.waitFor("gone", host)
	if left := daemon.containers(t, s.project); len(left) != 0 {
		t.Errorf("containers %q are left", left)
	}
}
