package health

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// read returns the trimmed text of a file, "" if it cannot be read or the first
// part, its root, is empty.
func read(parts ...string) string {
	if parts[0] == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// glob returns what matches pattern below root, in order, and nothing when root
// is empty.
func glob(root string, pattern ...string) []string {
	if root == "" {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(append([]string{root}, pattern...)...))
	return found
}

// element returns the name of the folder n levels above path.
func element(path string, n int) string {
	for range n {
		path = filepath.Dir(path)
	}
	return filepath.Base(path)
}

func diskPresence(c Config) (Status, string, string) {
	var names []string
	for _, p := range glob(c.SysRoot, "block", "*", "device") {
		names = append(names, element(p, 1))
	}
	if len(names) == 0 {
		return Fail, "no disk found", ""
	}
	return Pass, plural(len(names), "disk"), strings.Join(names, " ")
}

func diskErrors(c Config) (Status, string, string) {
	read1, bad := 0, []string(nil)
	for _, p := range glob(c.SysRoot, "block", "*", "device", "ioerr_cnt") {
		n, err := strconv.ParseUint(strings.TrimPrefix(read(p), "0x"), 16, 64)
		if err != nil {
			continue
		}
		read1++
		if n > 0 {
			bad = append(bad, fmt.Sprintf("%s=%d", element(p, 2), n))
		}
	}
	switch {
	case read1 == 0:
		return Skip, "no disk counts its errors", ""
	case len(bad) > 0:
		return Fail, plural(len(bad), "disk") + " with I/O errors", strings.Join(bad, " ")
	}
	return Pass, "no I/O errors", ""
}

func memoryECC(c Config) (Status, string, string) {
	counters := glob(c.SysRoot, "devices", "system", "edac", "mc", "*", "ue_count")
	if len(counters) == 0 {
		return Skip, "no memory controller counts its errors", ""
	}
	var bad []string
	for _, p := range counters {
		if n, err := strconv.ParseUint(read(p), 10, 64); err == nil && n > 0 {
			bad = append(bad, fmt.Sprintf("%s=%d", element(p, 1), n))
		}
	}
	if len(bad) > 0 {
		return Fail, "uncorrectable memory errors", strings.Join(bad, " ")
	}
	return Pass, "no uncorrectable memory errors", ""
}

// minimumMemory compares with what is plugged in, not with what the kernel has
// left to give: a host sold with 16 GiB passes a minimum of 16384 MiB.
func minimumMemory(c Config) (Status, string, string) {
	if c.MinMemoryMiB == 0 {
		return Pass, "no minimum set", ""
	}
	have, how := InstalledMemoryMiB(c.SysRoot, c.ProcRoot)
	message := fmt.Sprintf("%d MiB installed, %d MiB asked for", have, c.MinMemoryMiB)
	if have < c.MinMemoryMiB {
		return Fail, message, how
	}
	return Pass, message, how
}

// InstalledMemoryMiB returns how much memory a machine has and from where
// that is known. The memory blocks of sysfs count what is plugged in. Without
// them MemTotal is taken, which lacks what firmware and kernel keep, and rounded
// up by a sixteenth to make good for that.
func InstalledMemoryMiB(sysRoot, procRoot string) (uint64, string) {
	block, err := strconv.ParseUint(strings.TrimPrefix(read(sysRoot, "devices/system/memory/block_size_bytes"), "0x"), 16, 64)
	if err == nil && sysRoot != "" {
		var n uint64
		for _, p := range glob(sysRoot, "devices", "system", "memory", "memory*", "online") {
			if read(p) == "1" {
				n++
			}
		}
		if n > 0 {
			return n * block >> 20, "memory blocks"
		}
	}
	for _, line := range strings.Split(read(procRoot, "meminfo"), "\n") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(f[1], 10, 64)
			return (kib + kib/16) >> 10, "MemTotal and a sixteenth"
		}
	}
	return 0, "unknown"
}

// CPUs returns how many logical processors procfs lists.
func CPUs(procRoot string) int {
	n := 0
	for _, line := range strings.Split(read(procRoot, "cpuinfo"), "\n") {
		if key, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "processor" {
			n++
		}
	}
	return n
}

func minimumCPU(c Config) (Status, string, string) {
	if c.MinCPUs == 0 {
		return Pass, "no minimum set", ""
	}
	n := CPUs(c.ProcRoot)
	message := fmt.Sprintf("%d processors, %d asked for", n, c.MinCPUs)
	if n < c.MinCPUs {
		return Fail, message, ""
	}
	return Pass, message, ""
}

func linkState(c Config) (Status, string, string) {
	ports := glob(c.SysRoot, "class", "net", "*", "device")
	var down []string
	for _, p := range ports {
		if name := element(p, 1); read(c.SysRoot, "class/net", name, "carrier") != "1" {
			down = append(down, name)
		}
	}
	switch {
	case len(ports) == 0:
		return Fail, "no network port found", ""
	case len(down) > 0:
		return Fail, fmt.Sprintf("%s of %d without a link", plural(len(down), "port"), len(ports)), strings.Join(down, " ")
	}
	return Pass, plural(len(ports), "port") + " with a link", ""
}

// hottest is the temperature in thousandths of a degree Celsius above which a zone
// is too hot to start a long write.
const hottest = 95_000

func thermalState(c Config) (Status, string, string) {
	read1, hot := 0, []string(nil)
	for _, p := range glob(c.SysRoot, "class", "thermal", "thermal_zone*", "temp") {
		t, err := strconv.ParseInt(read(p), 10, 64)
		if err != nil {
			continue
		}
		read1++
		if t > hottest {
			hot = append(hot, fmt.Sprintf("%s=%d", element(p, 1), t/1000))
		}
	}
	switch {
	case read1 == 0:
		return Skip, "no thermal zone", ""
	case len(hot) > 0:
		return Fail, plural(len(hot), "thermal zone") + " above 95 degrees", strings.Join(hot, " ")
	}
	return Pass, plural(read1, "thermal zone") + " in range", ""
}
