//go:build e2e

package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
)

// benchInit runs the benchmark of pairs and switches the machine off.
const benchInit = `#!/bin/sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
` + loadModules + `ip link set lo up
/bin/image.test -test.run '^$' -test.bench DiskAgainstDD -test.benchtime 1x -test.timeout 1h
echo BENCH-END $?; poweroff -f
`

// BenchmarkVirtualDisk writes the same bytes to a virtual machine's disk by our image writer
// and by the dd of the installer's medium, in turn, ten times each, in the machine: it starts
// BenchmarkDiskAgainstDD of provision/image there, and shows what that said. It uses KVM where
// a machine really starts under it.
func BenchmarkVirtualDisk(b *testing.B) {
	k := getKernel(b)
	dir := b.TempDir()
	program, initrd, disk := filepath.Join(dir, "image.test"), filepath.Join(dir, "initrd"), filepath.Join(dir, "disk")
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/slipway-project/slipway/provision/image")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go test -c: %v\n%s", err, out)
	}
	for name, text := range map[string]string{initrd: initramfs(b, k, benchInit, program), disk: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Truncate(disk, gib); err != nil {
		b.Fatal(err)
	}
	accel := []string{"-accel", "tcg", "-cpu", "max", "-smp", "1"} // two emulated processors wait for each other most of the time
	if fakebmc.ProbeKVM(b.Context(), k.image) {
		accel = []string{"-accel", "kvm", "-cpu", "host", "-smp", "2"}
	}
	args := append([]string{"3600", "qemu-system-x86_64", "-machine", "q35"}, accel...)
	args = append(args, "-m", "2048", "-nodefaults", "-display", "none", "-no-reboot", "-net", "none", "-serial", "stdio",
		"-kernel", k.image, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=5 no_timer_check slipway.bench-disk=/dev/vda",
		"-drive", "file="+disk+",if=none,id=d0,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d0")
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), "timeout", args...).CombinedOutput()
		text := strings.ReplaceAll(string(out), "\r", "")
		if err != nil || !strings.Contains(text, "BENCH-END 0") {
			b.Fatalf("virtual machine: %v\n%s", err, text)
		}
		fmt.Printf("virtual machine with %s:\n", strings.Join(accel, " "))
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "pair ") || strings.Contains(line, ": median ") {
				fmt.Print(line)
			}
			report(b, line)
		}
	}
}

// report takes over what a line of a benchmark's output measured.
func report(b *testing.B, line string) {
	b.Helper()
	words := strings.Fields(line)
	if len(words) < 4 || !strings.HasPrefix(words[0], "BenchmarkDiskAgainstDD") {
		return
	}
	for i := 2; i+1 < len(words); i += 2 {
		if value, err := strconv.ParseFloat(words[i], 64); err == nil && !strings.HasSuffix(words[i+1], "/op") {
			b.ReportMetric(value, words[i+1])
		}
	}
}
