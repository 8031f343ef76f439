//go:build e2e

package lxd_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"
)

// systemFiles are all that the image "system" has of its own: the rest of Debian, with
// systemd and LXD, is in /usr, which its containers have from this machine to read,
// by the profile of the same name. So it takes no network and no time to make.
//
// All of its network devices are on a bridge, which asks for an address by DHCP, so
// that containers in the container can be on its network.
var systemFiles = map[string]string{
	"etc/passwd":                            "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"etc/group":                             "root:x:0:\ntty:x:5:\nlxd:x:110:\nnogroup:x:65534:\n",
	"etc/subuid":                            "root:1000000:65536\n",
	"etc/subgid":                            "root:1000000:65536\n",
	"etc/machine-id":                        "",
	"etc/systemd/network/10-bridge.netdev":  "[NetDev]\nName=br0\nKind=bridge\n",
	"etc/systemd/network/10-bridge.network": "[Match]\nName=br0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n",
	"etc/systemd/network/10-port.network":   "[Match]\nName=eth*\n[Network]\nBridge=br0\nLinkLocalAddressing=no\n",
	// Where the kernel has cpu and cpuacct apart, systemd mounts neither, and LXD
	// does without none.
	"etc/systemd/system/lxd.service.d/cgroups.conf": `[Service]
ExecStartPre=/bin/sh -c 'cd /sys/fs/cgroup; mount -o remount,rw .; grep -q :cpu: /proc/self/cgroup || exit 0; for c in cpu cpuacct; do if [ -L $c ]; then rm $c; mkdir $c; mount -t cgroup -o $c cgroup $c; fi; done'
`,
}

var systemLinks = map[string]string{
	"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin/init": "/usr/lib/systemd/systemd",
	"etc/os-release": "../usr/lib/os-release",
	"etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "/usr/lib/systemd/system/systemd-networkd.service",
	"etc/systemd/system/sockets.target.wants/lxd.socket":                  "/usr/lib/systemd/system/lxd.socket",
	"etc/systemd/system/systemd-binfmt.service":                           "/dev/null",
}

// importSystem makes the image "system" and its profile, whose containers have
// a network device on a bridge unless that is empty. It returns the image's file.
func (d *lxdDaemon) importSystem(t *testing.T, bridge string) (image string) {
	t.Helper()
	image = filepath.Join(t.TempDir(), "system.tar")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "metadata.yaml", Mode: 0o644}, metadata("debian"))
	for _, dir := range []string{"usr", "proc", "sys", "dev", "run", "tmp", "root", "etc", "sbin", "var/lib/lxcfs", "var/lib/lxd", "var/log/lxd"} {
		add(tar.Header{Name: "rootfs/" + dir + "/", Mode: 0o755, Typeflag: tar.TypeDir}, "")
	}
	for name, content := range systemFiles {
		add(tar.Header{Name: "rootfs/" + name, Mode: 0o644}, content)
	}
	for name, to := range systemLinks {
		add(tar.Header{Name: "rootfs/" + name, Linkname: to, Typeflag: tar.TypeSymlink}, "")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d.must(t, "image", "import", image, "--alias", "system")
	d.must(t, "profile", "create", "system")
	d.must(t, "profile", "device", "add", "system", "usr", "disk", "source=/usr", "path=/usr", "readonly=true")
	if bridge != "" {
		d.must(t, "profile", "device", "add", "system", "eth0", "nic", "name=eth0", "nictype=bridged", "parent="+bridge)
	}
	t.Cleanup(func() {
		d.must(t, "profile", "delete", "system")
		d.must(t, "image", "delete", "system")
	})
	return image
}
