//go:build e2e

package install_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

const gib = 1 << 30

// lab is what all tests share: an installer and an image.
type lab struct {
	kernel    kernel
	installer media.Output
	image     []byte
	raw       []byte
}

func newLab(t *testing.T) *lab {
	start := time.Now()
	l := &lab{kernel: getKernel(t)}
	l.installer = buildInstaller(t, l.kernel, media.Config{})
	l.raw = buildImage(t, l.kernel, ramdisk(t, l.kernel), system{init: tinyInit})
	l.image = compress(t, l.raw)
	t.Logf("installer and image of %d MiB built in %v", len(l.image)>>20, time.Since(start).Round(100*time.Millisecond))
	return l
}

// medium writes a host's medium.
func (l *lab) medium(t *testing.T, boot *config.Boot) string {
	t.Helper()
	iso := filepath.Join(t.TempDir(), "host.iso")
	if err := media.WriteISO(iso, l.installer.ESP, boot); err != nil {
		t.Fatal(err)
	}
	return iso
}

// order is what the machine is to become.
func (l *lab) order() config.MachineConfig {
	return config.MachineConfig{
		Host: "host-7", Hostname: "node-7",
		Image:      config.Image{URLs: []string{"https://" + address + "/images/tiny"}, Checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(l.image))},
		RootDevice: config.DiskHints{Serial: "VDISK1"},
		Kernel:     config.Kernel{Append: []string{"slipway.proof=1"}, Replace: []string{"console=ttyS0,115200n8"}},
		Files:      []config.File{{Path: "/etc/marker", Content: "from-the-controller"}},
		Commands:   []string{"set -e\nfor i in 1 2 3; do\n  printf \"$i\" >> /etc/script\ndone"},
		Inventory:  true,
	}
}

func (c *controller) port(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// TestInstall is one machine's life, and what can go wrong in it.
func TestInstall(t *testing.T) {
	l := newLab(t)
	t.Run("life", func(t *testing.T) { life(t, l) })
	if os.Getenv("SOAK") == "" { // the long form; TestChain has what follows first in any case
		return
	}
	t.Run("checksum", func(t *testing.T) { wrongChecksum(t, l) })
	t.Run("powercut", func(t *testing.T) { powerCut(t, l) })
	t.Run("qcow2", func(t *testing.T) { qcow2(t, l) })
	t.Run("nvme", func(t *testing.T) { nvme(t, l) })
	t.Run("hint", func(t *testing.T) { hint(t, l) })
	t.Run("layout", func(t *testing.T) { layout(t, l) })
	t.Run("kexec", func(t *testing.T) { kexec(t, l) })
	t.Run("bond", func(t *testing.T) { bond(t, l) })
	t.Run("secureboot", func(t *testing.T) { secureBoot(t, l) })
}

func life(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	r := m.boot(l.medium(t, c.order(l.order(), 1)), c.port(t))
	r.wait(t, 10*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Fatalf("last status %+v; console:\n%s", c.last(), r.console())
	}
	for _, want := range []string{"wipe-disk", "stream-image", "mount-root mount-boot setup-chroot-binds resize-filesystem", "set-hostname", "configure-grub", "run-machine-commands", "create-efi-boot-entry teardown-chroot"} {
		if !strings.Contains(c.steps(), want) {
			t.Errorf("steps lack %q: %s", want, c.steps())
		}
	}
	if !strings.Contains(c.health, `"serial":"VDISK1"`) || !strings.Contains(c.health, "memory-ecc") {
		t.Errorf("inventory and health: %s", c.health)
	}
	if all := strings.Join(c.log, "\n"); !strings.Contains(all, "disk to install on: /dev/vda (serial VDISK1") || strings.Contains(all, "secret-token") {
		t.Errorf("shipped log:\n%s", all)
	}
	bootsFromDisk(t, m, "host=node-7", "slipway.proof=1", "console=ttyS0,115200n8", "marker=from-the-controller", "script=123")

	again := l.order()
	again.Mode = config.ModeDeprovision
	r = m.boot(l.medium(t, c.order(again, 2)), c.port(t))
	r.wait(t, 10*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Fatalf("last status %+v; console:\n%s", c.last(), r.console())
	}
	if len(bytes.Trim(m.ends(), "\x00")) > 0 {
		t.Error("the ends of the disk are not empty")
	}
	if all := strings.Join(c.log, "\n"); !strings.Contains(all, "wipe /dev/vda (serial VDISK1") || !strings.Contains(all, `removing boot entry Boot`) {
		t.Errorf("log of the deprovision:\n%s", all)
	}
}

// bootsFromDisk boots the disk and looks for what the system says of itself.
func bootsFromDisk(t *testing.T, m *machine, want ...string) {
	t.Helper()
	r := m.boot("", "")
	r.wait(t, 10*time.Minute)
	text := r.console()
	_, line, ok := strings.Cut(text, "TINY-BOOT-OK")
	if !ok {
		t.Fatalf("the disk did not boot; console:\n%s", text)
	}
	line, _, _ = strings.Cut(line, "\n")
	t.Logf("system: %s", line)
	for _, w := range want {
		if !strings.Contains(line, w) {
			t.Errorf("system says %q, want %q in it", line, w)
		}
	}
	var mb int
	if _, after, ok := strings.Cut(line, "rootmb="); ok {
		_, _ = fmt.Sscanf(after, "%d", &mb)
	}
	if mb < 800 {
		t.Errorf("root file system has %d MiB of a disk of 1024, want it grown", mb)
	}
}

func wrongChecksum(t *testing.T, l *lab) {
	c := newController(t, l.image)
	m := newMachine(t, gib)
	order := l.order()
	order.Image.Checksum = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("another")))
	r := m.boot(l.medium(t, c.order(order, 1)), c.port(t))
	r.wait(t, 10*time.Minute)
	s := c.last()
	if s.State != config.StateError || s.Step != "stream-image" || !strings.Contains(s.Message, "image is not what was ordered") {
		t.Errorf("last status %+v; console:\n%s", s, r.console())
	}
	if len(bytes.Trim(m.ends(), "\x00")) > 0 {
		t.Error("the ends of the disk hold something: it might boot")
	}
}

func powerCut(t *testing.T, l *lab) {
	c := newController(t, l.image)
	c.limit = int64(len(l.image) / 2)
	m := newMachine(t, gib)
	r := m.boot(l.medium(t, c.order(l.order(), 1)), c.port(t))
	select {
	case <-c.held:
	case err := <-r.done:
		t.Fatalf("the machine ended: %v; console:\n%s", err, r.console())
	case <-time.After(10 * time.Minute):
		t.Fatalf("no image was asked for; console:\n%s", r.console())
	}
	r.cut()
	if len(bytes.Trim(m.ends(), "\x00")) > 0 {
		t.Error("the ends of the disk hold something: it might boot")
	}
	c.mu.Lock()
	c.limit = -1
	c.mu.Unlock()
	r = m.boot(l.medium(t, c.order(l.order(), 2)), c.port(t))
	r.wait(t, 10*time.Minute)
	if c.last().State != config.StateSuccess {
		t.Fatalf("after the cut: last status %+v; console:\n%s", c.last(), r.console())
	}
	bootsFromDisk(t, m, "host=node-7", "marker=from-the-controller")
}
