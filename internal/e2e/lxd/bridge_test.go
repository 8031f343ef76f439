//go:build e2e

package lxd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
)

// A laptop with LXD's bridge: the controller listens at the bridge's address as
// well and tells containers of it. The bridge is in a network namespace of the
// test's own and LXD is a double, since a real one would need a network for its
// containers.
func TestBridgeIsListenedOnAndPublished(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	fake := lxdtest.NewServer(t, "base")
	dir := t.TempDir()
	s := &site{T: t, dir: dir, bin: bin, server: &lxdDaemon{inside: newNetwork(t)}}
	s.controller = s.process("controllerd", "dev", "--data-dir", filepath.Join(dir, "site"), "--listen", "127.0.0.1:17070",
		"--provider", "lxd", "--lxd-socket", strings.TrimPrefix(fake.Address, "unix://"), "--lxd-agent", filepath.Join(bin, "provisionerd"),
		"--lxd-bridge", "slbr0")
	s.controller.Start()
	t.Cleanup(s.controller.End)
	s.persist("model-config", "lxd-image=base", "lxd-cloud-init=false")
	s.persist("add-machine")
	s.until("a container is there", func() bool {
		for _, c := range fake.Containers() {
			if c.Status != "Running" {
				continue
			}
			agent := c.Files[agentFile].Content
			if len(c.Devices) != 0 || !strings.Contains(agent, "10.213.0.1:17070") || strings.Contains(agent, "127.0.0.1") {
				t.Errorf("devices %v, agent file tells of other addresses than the bridge's", c.Devices)
			}
			return true
		}
		return false
	})
	// The client's own file tells of the address too, and it answers there.
	known, err := os.ReadFile(filepath.Join(dir, "site", "client", "controllers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`127\.0\.0\.1:17070`).ReplaceAll(known, []byte("10.213.0.1:17070"))
	if !strings.Contains(string(known), "10.213.0.1:17070") {
		t.Errorf("the client is not told of the bridge's address")
	}
	if err := os.WriteFile(filepath.Join(dir, "site", "client", "controllers.yaml"), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.try("machines"); err != nil {
		t.Errorf("over the bridge's address: %v %s", err, out)
	}
}

func TestBridgeThatIsNotThere(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"no-such-bridge": `there is no network interface "no-such-bridge"`,
		"lo":             "no address that a container can reach",
	} {
		out, err := exec.Command("unshare", "--net", "--", filepath.Join(bin, "controllerd"), "dev", "--data-dir", t.TempDir(), "--lxd-bridge", name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") > 2 {
			t.Errorf("--lxd-bridge %s says %q, %v, want %q", name, out, err, want)
		}
	}
}
