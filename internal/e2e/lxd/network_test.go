//go:build e2e

package lxd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// network makes a network that nothing but a test is on: a bridge that has the
// first address of 10.213.0.0/24. What mounts there is its own too, and /sys
// tells of that network. LXD looks there for bridges.
const network = `set -e
mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
mount --rbind /mnt /sys/fs/cgroup
umount --lazy /mnt
ip link set lo up
ip link add slbr0 type bridge
ip address add 10.213.0.1/24 dev slbr0
ip link set slbr0 up
echo "ready $$"
exec sleep 86400`

// newNetwork makes such a network, and returns what programs are run with that
// are to be on it. It ends with the test.
func newNetwork(t *testing.T) (inside []string) {
	t.Helper()
	holder := harness.New(t, harness.Config{Name: "network", Program: "unshare", Args: func() []string {
		return []string{"--net", "--mount", "--", "sh", "-c", network}
	}})
	return []string{"nsenter", "--target", holder.Serve(), "--net", "--mount", "--"}
}

// serveAddresses has a DHCP server give addresses of the bridge's network away.
func serveAddresses(t *testing.T, inside []string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "udhcpd.conf")
	text := "interface slbr0\nstart 10.213.0.20\nend 10.213.0.99\noption subnet 255.255.255.0\noption router 10.213.0.1\n" +
		"pidfile " + filepath.Join(dir, "pid") + "\nlease_file " + filepath.Join(dir, "leases") + "\n"
	for path, content := range map[string]string{config: text, filepath.Join(dir, "leases"): ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := harness.New(t, harness.Config{Name: "udhcpd", Program: "busybox", Inside: inside, Args: func() []string {
		return []string{"udhcpd", "-f", config}
	}})
	server.Start()
}
