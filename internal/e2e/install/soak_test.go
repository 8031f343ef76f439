//go:build e2e

package install_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
)

// installs boots the installer, waits for its success, and boots the disk.
func installs(t *testing.T, l *lab, c *controller, m *machine, order config.MachineConfig) {
	t.Helper()
	r := m.boot(l.medium(t, c.order(order, 1)), c.port(t))
	r.wait(t, 6*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Fatalf("last status %+v; console:\n%s", c.last(), r.console())
	}
	bootsFromDisk(t, m, "host=node-7", "marker=from-the-controller")
}

// qcow2 is read twice: once to verify it, then by parts. The old disk is full of
// something else, with a volume group at its beginning.
func qcow2(t *testing.T, l *lab) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "raw"), l.raw, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, dir, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "raw", "q")
	b, err := os.ReadFile(filepath.Join(dir, "q"))
	if err != nil {
		t.Fatal(err)
	}
	c := newController(t, b)
	m := newMachine(t, gib)
	old := bytes.Repeat([]byte("old data "), 16<<20)
	copy(old[1<<20+512:], "LABELONE")
	if err := os.WriteFile(m.disk, old[:64<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.disk, gib); err != nil {
		t.Fatal(err)
	}
	order := l.order()
	order.Image.Checksum = fmt.Sprintf("sha256:%x", sha256.Sum256(b))
	installs(t, l, c, m, order)
}

// nvme installs on an NVMe disk: its partitions are named with a p.
func nvme(t *testing.T, l *lab) {
	m := newMachine(t, gib)
	m.device = "nvme,serial=VDISK1"
	installs(t, l, newController(t, l.image), m, l.order())
}

// hint installs on the disk that the hint names, although another one would be chosen
// without it; that other one is not touched.
func hint(t *testing.T, l *lab) {
	m := newMachine(t, gib)
	other := filepath.Join(m.dir, "other")
	data := bytes.Repeat([]byte("data that must stay "), 1<<20)
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m.extra = []string{"-drive", "file=" + other + ",if=none,id=d1,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d1,serial=OTHER"}
	order := l.order()
	order.RootDevice = config.DiskHints{Serial: "VDISK1"}
	installs(t, l, newController(t, l.image), m, order)
	got, err := os.ReadFile(other)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the other disk was changed: %v", err)
	}
}

// kexec goes from the installer straight into the installed system: one boot of the
// firmware, and the system says what became of it in the same run.
func kexec(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	order := l.order()
	order.Finish = config.FinishKexec
	r := m.boot(l.medium(t, c.order(order, 1)), c.port(t))
	r.wait(t, 6*time.Minute)
	if text := r.console(); c.last().State != config.StateSuccess || !strings.Contains(text, "TINY-BOOT-OK host=node-7") {
		t.Errorf("last status %+v; console:\n%s", c.last(), text)
	}
}

// bond reaches the controller by a static address on a bond of one port, which is
// named by its MAC address; a VLAN on the bond has an address of its own.
func bond(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	boot := c.order(l.order(), 1)
	boot.Network = config.Network{
		Bonds:   []config.Bond{{Name: "bond0", Members: []string{"52:54:00:12:34:56"}, Mode: "active-backup"}}, // QEMU's first port
		VLANs:   []config.VLAN{{ID: 7, Parent: "bond0"}},
		Static:  []config.Address{{Link: "bond0", Address: "10.0.2.15/24", Gateway: "10.0.2.2"}, {Link: "bond0.7", Address: "2001:db8::7/64"}},
		Timeout: 120,
	}
	r := m.boot(l.medium(t, boot), c.port(t))
	r.wait(t, 6*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Errorf("last status %+v; console:\n%s", c.last(), r.console())
	}
}

// secureBoot shows that an installer that nobody signed does not start where the
// firmware wants a signature: the machine asks for nothing.
func secureBoot(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	m.secure = true
	m.forget(variablesSecure)
	r := m.boot(l.medium(t, c.order(l.order(), 1)), c.port(t))
	deadline := time.After(3 * time.Minute)
	for !strings.Contains(r.console(), "Access Denied") {
		select {
		case <-deadline:
			t.Fatalf("the firmware did not refuse; console:\n%s", r.console())
		case err := <-r.done:
			t.Fatalf("the machine ended: %v; console:\n%s", err, r.console())
		case <-time.After(200 * time.Millisecond):
		}
	}
	r.cut()
	if s := c.last(); s.State != "" {
		t.Errorf("the machine reported %+v", s)
	}
}
