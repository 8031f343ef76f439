package health_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/provision/health"
)

// tree makes files below a new root and returns the root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestChecks(t *testing.T) {
	for _, tc := range []struct {
		name, check string
		sys, proc   map[string]string
		conf        health.Config
		want        health.Status
		message     string
	}{
		{name: "no disk", check: "disk-presence", want: health.Fail, message: "no disk found"},
		{name: "two disks", check: "disk-presence", sys: map[string]string{"block/sda/device/x": "", "block/sdb/device/x": ""}, want: health.Pass, message: "2 disks"},
		{name: "virtual block devices do not count", check: "disk-presence", sys: map[string]string{"block/loop0/size": "1"}, want: health.Fail},
		{name: "no counter", check: "disk-ioerr", want: health.Skip},
		{name: "counter at zero", check: "disk-ioerr", sys: map[string]string{"block/sda/device/ioerr_cnt": "0x0\n"}, want: health.Pass},
		{name: "counter in hexadecimal", check: "disk-ioerr", sys: map[string]string{"block/sda/device/ioerr_cnt": "0x1f\n"}, want: health.Fail, message: "1 disk with I/O errors"},
		{name: "no edac", check: "memory-ecc", want: health.Skip},
		{name: "edac clean", check: "memory-ecc", sys: map[string]string{"devices/system/edac/mc/mc0/ue_count": "0"}, want: health.Pass},
		{name: "edac faulty", check: "memory-ecc", sys: map[string]string{"devices/system/edac/mc/mc0/ue_count": "2"}, want: health.Fail},
		{name: "no minimum", check: "minimum-memory", want: health.Pass},
		{name: "16 GiB host passes 16384 by its blocks", check: "minimum-memory", conf: health.Config{MinMemoryMiB: 256},
			sys: map[string]string{"devices/system/memory/block_size_bytes": "8000000", "devices/system/memory/memory0/online": "1", "devices/system/memory/memory1/online": "1"}, want: health.Pass, message: "256 MiB installed, 256 MiB asked for"},
		{name: "16 GiB host passes 16384 by MemTotal", check: "minimum-memory", conf: health.Config{MinMemoryMiB: 16384},
			proc: map[string]string{"meminfo": "MemTotal:       16293112 kB\nMemFree: 3 kB\n"}, want: health.Pass},
		{name: "too little", check: "minimum-memory", conf: health.Config{MinMemoryMiB: 16384},
			proc: map[string]string{"meminfo": "MemTotal:       8146556 kB\n"}, want: health.Fail},
		{name: "enough processors", check: "minimum-cpu", conf: health.Config{MinCPUs: 2}, proc: map[string]string{"cpuinfo": "processor\t: 0\nmodel: x\n\nprocessor\t: 1\n"}, want: health.Pass},
		{name: "too few processors", check: "minimum-cpu", conf: health.Config{MinCPUs: 3}, proc: map[string]string{"cpuinfo": "processor\t: 0\n"}, want: health.Fail, message: "1 processors, 3 asked for"},
		{name: "a port without a link", check: "nic-link-state", sys: map[string]string{"class/net/eth0/device/x": "", "class/net/eth0/carrier": "1", "class/net/eth1/device/x": "", "class/net/lo/carrier": "1"}, want: health.Fail, message: "1 port of 2 without a link"},
		{name: "all links up", check: "nic-link-state", sys: map[string]string{"class/net/eth0/device/x": "", "class/net/eth0/carrier": "1\n"}, want: health.Pass},
		{name: "no zone", check: "thermal-state", want: health.Skip},
		{name: "at the limit", check: "thermal-state", sys: map[string]string{"class/thermal/thermal_zone0/temp": "95000"}, want: health.Pass},
		{name: "too hot", check: "thermal-state", sys: map[string]string{"class/thermal/thermal_zone0/temp": "95001"}, want: health.Fail},
	} {
		t.Run(tc.check+"/"+tc.name, func(t *testing.T) {
			tc.conf.SysRoot, tc.conf.ProcRoot = tree(t, tc.sys), tree(t, tc.proc)
			for _, r := range health.Run(tc.conf) {
				if r.Name != tc.check {
					continue
				}
				if r.Status != tc.want || !strings.Contains(r.Message, tc.message) {
					t.Errorf("%s = %s %q %q, want %s %q", r.Name, r.Status, r.Message, r.Details, tc.want, tc.message)
				}
				return
			}
			t.Errorf("no result of %s", tc.check)
		})
	}
}

func TestEmptyRootsReadNothingOfThisMachine(t *testing.T) {
	for _, r := range health.Run(health.Config{MinMemoryMiB: 1, MinCPUs: 1}) {
		switch r.Name {
		case "disk-presence", "minimum-memory", "minimum-cpu", "nic-link-state":
			if r.Status != health.Fail {
				t.Errorf("%s = %s %q, want fail: there is nothing to read", r.Name, r.Status, r.Message)
			}
		default:
			if r.Status != health.Skip {
				t.Errorf("%s = %s %q, want skip", r.Name, r.Status, r.Message)
			}
		}
	}
}

func TestASkippedCheckSaysSo(t *testing.T) {
	for _, r := range health.Run(health.Config{Skip: health.Names()}) {
		if r.Status != health.Skip || r.Message != "skipped by configuration" || r.Stops() {
			t.Errorf("%+v, want skipped by configuration", r)
		}
	}
}

func TestOnlyACriticalFailureStops(t *testing.T) {
	for _, tc := range []struct {
		r    health.CheckResult
		want bool
	}{
		{health.CheckResult{Status: health.Fail, Severity: health.Critical}, true},
		{health.CheckResult{Status: health.Fail, Severity: health.Warning}, false},
		{health.CheckResult{Status: health.Pass, Severity: health.Critical}, false},
		{health.CheckResult{Status: health.Skip, Severity: health.Critical}, false},
	} {
		if got := tc.r.Stops(); got != tc.want {
			t.Errorf("%+v.Stops() = %v, want %v", tc.r, got, tc.want)
		}
	}
}
