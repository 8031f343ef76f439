package pid1_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/pid1"
)

// kernel records what it is asked.
type kernel struct {
	root string
	log  []string
	fail string
}

func (k *kernel) note(format string, args ...any) error {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), k.root, "")
	k.log = append(k.log, line)
	if k.fail != "" && strings.HasPrefix(line, k.fail) {
		return errors.New("refused")
	}
	return nil
}

func (k *kernel) Mount(source, dir, fs, options string) error {
	return k.note("mount %s %s %s %s", source, dir, fs, options)
}
func (k *kernel) LoadModule(path string) error { return k.note("load %s", path) }
func (k *kernel) SetClock(t time.Time) error   { return k.note("clock %s", t.UTC().Format(time.RFC3339)) }
func (k *kernel) End(e pid1.End) error         { return k.note("end %d", e) }

// write makes files below root.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGuardRefusesEveryOtherProcess(t *testing.T) {
	if k, err := pid1.Guard(); !errors.Is(err, errors.NotSupported) || k != nil {
		t.Fatalf("Guard() = %v, %v in a test, want NotSupported", k, err)
	}
}

func TestMountAll(t *testing.T) {
	k := &kernel{root: t.TempDir()}
	if err := pid1.MountAll(k, k.root); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(k.log[:3], ";"); got != "mount devtmpfs /dev devtmpfs mode=0755;mount proc /proc proc ;mount sysfs /sys sysfs " {
		t.Errorf("first: %s", got)
	}
	k = &kernel{root: t.TempDir(), fail: "mount proc"}
	if err := pid1.MountAll(k, k.root); err == nil {
		t.Error("MountAll without proc succeeded")
	}
	k = &kernel{root: t.TempDir(), fail: "mount tmpfs /run"}
	if err := pid1.MountAll(k, k.root); err != nil {
		t.Errorf("MountAll without /run = %v", err)
	}
}

func TestModulesAreLoadedAsHardwareAsks(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"modules/modules.dep":       "k/virtio.ko:\nk/virtio_ring.ko: k/virtio.ko\nk/virtio_pci.ko: k/virtio_ring.ko k/virtio.ko\nk/virtio-net.ko: k/virtio.ko\nk/e1000.ko:\nk/vfat.ko: k/fat.ko\nk/fat.ko:\n",
		"modules/modules.alias":     "# comment\nalias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\nalias virtio:d00000001v* virtio_net\nalias pci:v00008086d0000100[EF]sv*sd*bc*sc*i* e1000\n",
		"modules/always":            "k/vfat.ko\n",
		"sys/devices/pci0/modalias": "pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00\n",
		"sys/devices/pci1/modalias": "pci:v00008086d0000100Dsv0sd0bc02sc00i00\n",
	})
	k := &kernel{root: root}
	rounds := 0
	n := pid1.ReadModules(k, filepath.Join(root, "modules"), filepath.Join(root, "sys")).Load(func() {
		if rounds++; rounds == 1 { // the bus finds a device
			write(t, root, map[string]string{"sys/devices/pci0/virtio0/modalias": "virtio:d00000001v00001AF4\n"})
		}
	})
	want := "load /modules/k/fat.ko;load /modules/k/vfat.ko;load /modules/k/virtio.ko;load /modules/k/virtio_ring.ko;load /modules/k/virtio_pci.ko;load /modules/k/virtio-net.ko"
	if got := strings.Join(k.log, ";"); got != want || n != 6 {
		t.Errorf("%d loaded: %s, want %s", n, got, want)
	}
}

func TestModulesNoneAndFailing(t *testing.T) {
	k := &kernel{root: t.TempDir()}
	if n := pid1.ReadModules(k, k.root, k.root).Load(func() {}); n != 0 {
		t.Errorf("without tables: %d loaded", n)
	}
	write(t, k.root, map[string]string{"modules.dep": "a.ko:\nb.ko: a.ko\n", "always": "a.ko\nb.ko\n"})
	k.fail = "load /a.ko"
	if n := pid1.ReadModules(k, k.root, k.root).Load(func() {}); n != 1 || len(k.log) != 2 {
		t.Errorf("with a failing one: %d loaded, %v", n, k.log)
	}
}

func TestSetClock(t *testing.T) {
	now := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	k := &kernel{}
	if err := pid1.SetClock(k, now, now.Add(900*time.Millisecond)); err != nil || len(k.log) != 0 {
		t.Errorf("small difference: %v, %v", err, k.log)
	}
	if err := pid1.SetClock(k, now, now.AddDate(25, 0, 0)); err != nil || k.log[0] != "clock 2026-01-01T00:00:00Z" {
		t.Errorf("25 years: %v, %v", err, k.log)
	}
}

func TestReaperTakesOrphansOnSecondSightOnly(t *testing.T) {
	proc := t.TempDir()
	stat := func(pid int, name, state string, parent int) {
		write(t, proc, map[string]string{fmt.Sprintf("%d/stat", pid): fmt.Sprintf("%d (%s) %s %d 1 1", pid, name, state, parent)})
	}
	stat(10, "a) Z 1 (", "S", 1)
	stat(11, "orphan", "Z", 1)
	stat(12, "of another", "Z", 10)
	var taken []int
	r := pid1.NewReaper(proc, 1, func(pid int) {
		taken = append(taken, pid)
		_ = os.RemoveAll(filepath.Join(proc, fmt.Sprint(pid)))
	})
	r.Once()
	if len(taken) != 0 {
		t.Fatalf("taken at first sight: %v", taken)
	}
	stat(13, "command that is waited for", "Z", 1)
	r.Once()
	_ = os.RemoveAll(filepath.Join(proc, "13")) // its waiter took it
	r.Once()
	if fmt.Sprint(taken) != "[11]" {
		t.Errorf("taken = %v, want [11]", taken)
	}
}

// dog records.
type dog struct{ log []string }

func (d *dog) Feed() error    { d.log = append(d.log, "feed"); return nil }
func (d *dog) Release() error { d.log = append(d.log, "release"); return nil }

func TestWatchdogIsFedWhileAliveAndReleasedOnPurpose(t *testing.T) {
	for _, tc := range []struct {
		name    string
		alive   bool
		release bool
		want    string
	}{
		{"alive", true, true, "feed feed feed release"},
		{"hung", false, true, "release"},
		{"left to bite", true, false, "feed feed feed feed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &dog{}
			g := pid1.Keep(d, time.Second, func() bool { return tc.alive })
			<-time.After(2500 * time.Millisecond) // of the bubble's clock
			g.Stop(tc.release)
			if got := strings.Join(d.log, " "); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
			}
		})
	}
	if _, err := pid1.OpenDog(filepath.Join(t.TempDir(), "watchdog"), 0); !errors.Is(err, errors.NotFound) {
		t.Errorf("OpenDog without one = %v, want NotFound", err)
	}
}

// shipper records batches.
type shipper struct {
	batches [][]string
	err     error
}

func (s *shipper) ShipLog(_ context.Context, lines []string) error {
	s.batches = append(s.batches, lines)
	return s.err
}

func entry(module, message string) loggo.Entry {
	return loggo.Entry{Module: module, Level: loggo.INFO, Message: message, Timestamp: time.Unix(0, 0)}
}

func TestLogIsShownAndShippedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var console bytes.Buffer
		w := pid1.NewLogWriter(&console)
		w.Write(entry("slipway.provision", "one --token hunter2"))
		w.Write(entry("slipway.provision.config", "about the shipping"))
		ctx, cancel := context.WithCancel(t.Context())
		s := &shipper{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Ship(ctx, s)
		}()
		<-time.After(3 * time.Second) // of the bubble's clock
		w.Write(entry("slipway.provision", "last"))
		cancel()
		<-done
		if got := fmt.Sprint(s.batches); got != "[[00:00:00.000 INFO  provision one --token [redacted]] [00:00:00.000 INFO  provision last]]" {
			t.Errorf("shipped %s", got)
		}
		if !strings.Contains(console.String(), "about the shipping\r\n") || strings.Contains(console.String(), "hunter2") {
			t.Errorf("console: %s", console.String())
		}
	})
}

func TestALogThatCannotBeShippedHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pid1.NewLogWriter()
		for i := range 5000 {
			w.Write(entry("slipway.provision", fmt.Sprint(i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := &shipper{}
		w.Ship(ctx, s)
		n := 0
		for _, b := range s.batches {
			n += len(b)
		}
		if n != 2001 || !strings.Contains(fmt.Sprint(s.batches), "(3000 lines were dropped)") {
			t.Errorf("%d lines shipped", n)
		}
	})
}
