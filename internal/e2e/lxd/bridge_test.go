//go:build e2e

package lxd_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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
	controller := process{name: "controllerd", log: filepath.Join(dir, "log"), args: []string{
		"unshare", "--net", "--", "sh", "-c", `
ip link set lo up
ip link add slbr0 type bridge
ip address add 10.213.0.1/24 dev slbr0
ip link set slbr0 up
exec "$0" "$@"`,
		filepath.Join(bin, "controllerd"), "dev", "--data-dir", filepath.Join(dir, "site"), "--listen", "127.0.0.1:17070",
		"--provider", "lxd", "--lxd-socket", strings.TrimPrefix(fake.Address, "unix://"), "--lxd-agent", filepath.Join(bin, "provisionerd"),
		"--lxd-bridge", "slbr0",
	}}
	controller.begin(t)
	s := &site{T: t, dir: dir, bin: bin, controller: controller}
	t.Cleanup(func() { s.controller.end(syscall.SIGTERM); s.dump() })
	slipway := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", s.controller.cmd.Process.Pid), filepath.Join(bin, "slipway")}, args...)...)
		cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+filepath.Join(dir, "site", "client"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"model-config", "lxd-image=base", "lxd-cloud-init=false"}, {"add-machine"},
	} {
		var out string
		s.until("slipway "+strings.Join(args, " "), func() bool {
			var err error
			out, err = slipway(args...)
			return err == nil
		})
		t.Logf("slipway %s: %s", strings.Join(args, " "), out)
	}
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
	if out, err := slipway("machines"); err != nil {
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
