//go:build e2e

package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// machine is a virtual machine: its disk and its firmware's memory stay between boots.
type machine struct {
	t    *testing.T
	dir  string
	disk string
	nvr  string
	n    int // boots

	device string   // of the disk, without its drive
	extra  []string // further arguments
	secure bool     // Secure Boot with the keys of Microsoft
}

const (
	firmware       = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	firmwareSecure = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	variables      = "/usr/share/OVMF/OVMF_VARS_4M.fd"
	// variablesSecure holds the keys of Microsoft.
	variablesSecure = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
)

// newMachine makes a machine with an empty disk of size bytes.
func newMachine(t *testing.T, size int64) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), device: "virtio-blk-pci,serial=VDISK1"}
	m.disk, m.nvr = filepath.Join(m.dir, "disk"), filepath.Join(m.dir, "nvram")
	f, err := os.Create(m.disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	m.forget(variables)
	return m
}

// forget makes the firmware's memory anew.
func (m *machine) forget(from string) {
	m.t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.nvr, b, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// running is a boot of a machine.
type running struct {
	cmd    *exec.Cmd
	serial string
	done   chan error
	start  time.Time
}

// boot starts the machine: from the medium iso, or from its disk if that is "". port is
// where the controller listens.
func (m *machine) boot(iso string, port string) *running {
	m.t.Helper()
	m.n++
	serial := filepath.Join(m.dir, fmt.Sprintf("serial-%d", m.n))
	board, code := "q35", firmware
	if m.secure {
		board, code = "q35,smm=on", firmwareSecure
	}
	args := []string{
		"-machine", board, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "1024", "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:" + serial,
		"-drive", "if=pflash,format=raw,readonly=on,file=" + code, "-drive", "if=pflash,format=raw,file=" + m.nvr,
		"-drive", "file=" + m.disk + ",if=none,id=d0,format=raw,cache=unsafe,discard=unmap", "-device", m.device + ",drive=d0,bootindex=1", // without an index the firmware drops entries for it
		"-device", "i6300esb", "-action", "watchdog=reset",
	}
	args = append(args, m.extra...)
	if m.secure {
		args = append(args, "-global", "driver=cfi.pflash01,property=secure,value=on")
	}
	if iso == "" {
		args = append(args, "-net", "none")
	} else {
		args = append(args,
			"-drive", "file="+iso+",if=none,id=cd,media=cdrom,readonly=on", "-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=cd,bootindex=0", // the kernel for clouds has no AHCI
			"-netdev", "user,id=n0,restrict=on,ipv6=off,guestfwd=tcp:"+address+":443-cmd:/bin/busybox nc 127.0.0.1 "+port,
			"-device", "virtio-net-pci,netdev=n0,romfile=")
	}
	r := &running{cmd: exec.Command("qemu-system-x86_64", args...), serial: serial, done: make(chan error, 1), start: time.Now()}
	var stderr strings.Builder
	r.cmd.Stderr = &stderr
	if err := r.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		err := r.cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, stderr.String())
		}
		r.done <- err
	}()
	m.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// wait returns when the machine has switched itself off, or fails the test.
func (r *running) wait(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	select {
	case err := <-r.done:
		if err != nil {
			t.Fatalf("machine: %v", err)
		}
	case <-ctx.Done():
		_ = r.cmd.Process.Kill()
		t.Fatalf("the machine still runs after %v; its console:\n%s", limit, r.console())
	}
	t.Logf("machine ran for %v", time.Since(r.start).Round(100*time.Millisecond))
}

// cut takes the power away.
func (r *running) cut() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

// console returns the end of what the machine printed.
func (r *running) console() string {
	b, err := os.ReadFile(r.serial)
	if err != nil {
		return err.Error()
	}
	text := strings.ReplaceAll(string(b), "\r", "")
	return text[max(0, len(text)-12000):]
}

// head returns the first mebibyte of the disk, and the last.
func (m *machine) ends() []byte {
	m.t.Helper()
	f, err := os.Open(m.disk)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 2<<20)
	if _, err := f.ReadAt(b[:1<<20], 0); err != nil {
		m.t.Fatal(err)
	}
	if _, err := f.ReadAt(b[1<<20:], st.Size()-1<<20); err != nil {
		m.t.Fatal(err)
	}
	return b
}
