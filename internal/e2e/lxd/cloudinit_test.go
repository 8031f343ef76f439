//go:build e2e

package lxd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCloudInitMachine boots Debian with systemd and cloud-init. Its agent is
// downloaded from the controller, through the proxy device, as the user data
// says.
func TestCloudInitMachine(t *testing.T) {
	longForm(t)
	importDebian(t)
	s := newSiteWith(t)
	s.uploadAgent("2.0.0-bookworm-amd64", filepath.Join(s.bin, "provisionerd"))
	s.slipway("model-config", "lxd-image=debian", "lxd-cloud-init=true", "authorized-keys=ssh-ed25519 AAAAkey somebody",
		"http-proxy=http://127.0.0.1:3128/it's", "enable-os-refresh-update=false", "enable-os-upgrade=false",
		"cloudinit-userdata=postruncmd: [[touch, /root/after]]")
	id := s.add("--base", "debian@12")
	s.waitFor("started", id)
	name, _, err := s.container(id)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.exec(id, "cloud-init", "status", "--wait", "--long"); err != nil || !strings.Contains(out, "status: done") {
		t.Errorf("cloud-init says %q, %v", out, err)
	}
	for _, c := range []struct{ command, want string }{
		{"stat -c '%a %u' /var/lib/slipway/agent.yaml", "600 0"},
		{"stat -c '%a %u' /var/lib/slipway/agent/current/provisionerd", "755 0"},
		{"systemctl is-active slipway-agent.service", "active"},
		{"systemctl is-enabled slipway-agent.service", "enabled"},
		{"cat /home/debian/.ssh/authorized_keys", "AAAAkey"},
		{"cat /etc/profile.d/slipway-proxy.sh", "export HTTP_PROXY='http://127.0.0.1:3128/it'\\''s'"},
		{"stat -c %n /root/after", "/root/after"},
	} {
		if out, err := s.exec(id, "sh", "-c", c.command); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s says %q, %v, want %q in it", c.command, out, err, c.want)
		}
	}
	settings := daemon.must(t, "config", "show", "--expanded", "--project", s.project, name)
	if strings.Contains(settings, "password") {
		t.Error("LXD's settings of the container hold a password")
	}

	// It comes back by itself, with the password that it chose.
	daemon.must(t, "restart", "--force", "--project", s.project, name)
	s.until("the agent is back", func() bool {
		out, err := s.exec(id, "journalctl", "--unit", "slipway-agent", "--boot", "--no-pager")
		return err == nil && strings.Contains(out, "is connected to")
	})
	s.slipway("remove-machine", id)
	s.waitFor("gone", id)
}

// importDebian makes the image "debian" unless it is there.
func importDebian(t *testing.T) {
	t.Helper()
	if strings.Contains(daemon.must(t, "image", "list", "--format", "csv", "--columns", "l"), "debian") {
		return
	}
	top := filepath.Join(daemon.dir, "debian")
	root := filepath.Join(top, "rootfs")
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out[max(0, len(out)-2000):])
		}
	}
	// debootstrap knows no virtual packages: python3-cffi-backend is one that
	// cloud-init needs.
	run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,cloud-init,python3-cffi-backend,python3,ifupdown", "bookworm", root, mirror(t))
	run("chroot", root, "systemctl", "enable", "cloud-init-local", "cloud-init", "cloud-config", "cloud-final")
	run("rm", "-rf", filepath.Join(root, "var/cache/apt"), filepath.Join(root, "var/lib/apt/lists"))
	for path, content := range map[string]string{
		"rootfs/etc/machine-id": "",
		// The image has neither locales nor an SSH server.
		"rootfs/etc/cloud/cloud.cfg.d/99-small.cfg": "locale: C.UTF-8\nssh_genkeytypes: []\n",
		"rootfs/etc/network/interfaces":             "auto lo\niface lo inet loopback\n",
		"metadata.yaml":                             "architecture: x86_64\ncreation_date: 1700000000\nproperties:\n  os: debian\n  release: bookworm\n",
	} {
		if err := os.WriteFile(filepath.Join(top, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	image := filepath.Join(daemon.dir, "debian.tar")
	run("tar", "-C", top, "-cf", image, "metadata.yaml", "rootfs")
	daemon.must(t, "image", "import", image, "--alias", "debian")
}

// mirror returns where this machine gets its own packages from.
func mirror(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if url := strings.TrimSpace(line); url != "" && !strings.Contains(url, "security") {
			return url
		}
	}
	t.Fatal("apt knows no mirror")
	return ""
}
