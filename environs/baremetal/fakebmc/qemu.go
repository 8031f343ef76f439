package fakebmc

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
)

// QEMUOptions describe virtual machines with UEFI firmware.
type QEMUOptions struct {
	// Dir is the folder of one machine: disk.img, nvram.fd, console.log and what it
	// boots from. It is made if need be, and what is in it is kept.
	Dir string
	// Binary is the emulator; empty: qemu-system-x86_64.
	Binary string
	// Code and Vars are the firmware and the template of its NVRAM; empty: those of
	// Debian's package ovmf.
	Code, Vars string
	// KVM uses the processor's virtualisation. That /dev/kvm exists does not mean
	// that it works: see ProbeKVM.
	KVM       bool
	MemoryMiB int   // 0: 1024
	DiskBytes int64 // 0: 2 GiB; the disk takes only what is written to it
	// Network is what follows "user,id=n0," in QEMU's option -netdev. Empty lets the
	// machine reach no address but that of a DHCP server. With
	// "restrict=on,guestfwd=tcp:10.0.2.100:80-tcp:127.0.0.1:8080" it reaches one port of
	// this computer.
	Network string
	// Client fetches what machines boot from; nil: http.DefaultClient.
	Client *http.Client

	// DiskDevice is what the disk is plugged into the machine as, as QEMU's option
	// -device names it; empty: virtio-blk-pci. Another is nvme.
	DiskDevice string
	// SecureBoot has the firmware start only what is signed by a key that Vars holds;
	// Code and Vars, if empty, are then those of Debian's package ovmf with Microsoft's keys.
	SecureBoot bool
	// Port is the id of the network that the machine's port is on; empty: n0, which is
	// that of Network. Any other is defined by Args.
	Port string
	// Args are further arguments of the emulator: disks, networks.
	Args []string
}

// QEMU is a Machine that is a virtual machine.
type QEMU struct {
	o    QEMUOptions
	turn chan struct{} // filled by the one run there may be at a time

	mu  sync.Mutex
	cmd *exec.Cmd
	qmp io.Writer
}

var (
	_ Machine      = (*QEMU)(nil)
	_ SecureBooter = (*QEMU)(nil)
)

// mediumTimeout bounds the fetching of what a machine is to boot from.
const mediumTimeout = 10 * time.Minute

// NewQEMU returns a machine that is off. The error satisfies errors.NotFound if the
// emulator or its firmware is not installed.
func NewQEMU(o QEMUOptions) (*QEMU, error) {
	if o.Binary == "" {
		o.Binary = "qemu-system-x86_64"
	}
	code, vars := "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
	if o.SecureBoot {
		code, vars = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
	}
	o.Code, o.Vars = cmp.Or(o.Code, code), cmp.Or(o.Vars, vars)
	o.DiskDevice, o.Port = cmp.Or(o.DiskDevice, "virtio-blk-pci"), cmp.Or(o.Port, "n0")
	if o.MemoryMiB == 0 {
		o.MemoryMiB = 1024
	}
	if o.DiskBytes == 0 {
		o.DiskBytes = 2 << 30
	}
	if o.Network == "" {
		o.Network = "restrict=on"
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if _, err := exec.LookPath(o.Binary); err != nil {
		return nil, errors.NotFoundf("emulator %s (package qemu-system-x86)", o.Binary)
	}
	for _, f := range []string{o.Code, o.Vars} {
		if _, err := os.Stat(f); err != nil {
			return nil, errors.NotFoundf("firmware %s (package ovmf)", f)
		}
	}
	q := &QEMU{o: o, turn: make(chan struct{}, 1)}
	return q, errors.Annotatef(q.prepare(), "cannot prepare virtual machine in %s", o.Dir)
}

// The files of a machine.
func (q *QEMU) file(name string) string { return filepath.Join(q.o.Dir, name) }

// Disk returns the path of the machine's disk.
func (q *QEMU) Disk() string { return q.file("disk.img") }

// Console returns the path of what the machine wrote to its serial console, over
// all boots.
func (q *QEMU) Console() string { return q.file("console.log") }

// SecureBoot is described by SecureBooter.
func (q *QEMU) SecureBoot() bool { return q.o.SecureBoot }

// prepare makes what is missing of the machine's files.
func (q *QEMU) prepare() error {
	if err := os.MkdirAll(q.o.Dir, 0o700); err != nil {
		return errors.Trace(err)
	}
	disk, err := os.OpenFile(q.Disk(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { _ = disk.Close() }()
	if info, err := disk.Stat(); err == nil && info.Size() < q.o.DiskBytes {
		if err := disk.Truncate(q.o.DiskBytes); err != nil {
			return errors.Trace(err)
		}
	}
	if _, err := os.Stat(q.file("nvram.fd")); err == nil {
		return nil
	}
	vars, err := os.ReadFile(q.o.Vars)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(os.WriteFile(q.file("nvram.fd"), vars, 0o600))
}

// PowerOn is described by Machine.
func (q *QEMU) PowerOn(ctx context.Context, s *System, boot Boot, off func(restart bool)) error {
	s.bmc.run(func(context.Context) {
		restart, err := q.run(ctx, s, boot)
		if err != nil && ctx.Err() == nil {
			logger.Errorf("system %s: %v", s.id, err)
		}
		off(restart)
	})
	return nil
}

// run fetches what the machine boots from and runs it until it goes off; restart
// tells whether it means to start again.
func (q *QEMU) run(ctx context.Context, s *System, boot Boot) (restart bool, err error) {
	select {
	case q.turn <- struct{}{}: // the last run has let go of the disk
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return false, nil
	}
	args, err := q.arguments(ctx, s, boot)
	if err != nil {
		return false, errors.Trace(err)
	}
	cmd := exec.CommandContext(ctx, q.o.Binary, args...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return false, errors.Trace(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, errors.Trace(err)
	}
	if err := cmd.Start(); err != nil {
		return false, errors.Annotate(err, "cannot start the emulator")
	}
	q.set(cmd, in)
	defer q.set(nil, nil)
	restart = q.follow(in, out)
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		return false, errors.Annotatef(err, "emulator: %s", strings.TrimSpace(stderr.String()))
	}
	return restart, nil
}

// set notes the running emulator.
func (q *QEMU) set(cmd *exec.Cmd, qmp io.Writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cmd, q.qmp = cmd, qmp
}

// follow speaks QMP, QEMU's protocol of control, until the emulator ends, and
// tells whether the machine meant to start again.
func (q *QEMU) follow(in io.Writer, out io.Reader) (restart bool) {
	_, _ = io.WriteString(in, `{"execute":"qmp_capabilities"}`+"\n")
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var message struct {
			Event string
			Data  struct{ Reason string }
		}
		if json.Unmarshal(lines.Bytes(), &message) == nil && message.Event == "SHUTDOWN" {
			restart = message.Data.Reason == "guest-reset"
		}
	}
	return restart
}

// arguments returns the emulator's command line, after fetching what it names.
func (q *QEMU) arguments(ctx context.Context, s *System, boot Boot) ([]string, error) {
	accel := []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	if q.o.KVM {
		accel = []string{"-accel", "kvm", "-cpu", "host"}
	}
	board := "q35"
	if q.o.SecureBoot { // its keys are kept by the processor's management mode
		board = "q35,smm=on"
		accel = append(accel, "-global", "driver=cfi.pflash01,property=secure,value=on")
	}
	args := append([]string{"-machine", board}, accel...)
	args = append(args,
		"-smp", "1", "-m", fmt.Sprint(q.o.MemoryMiB), "-nodefaults", "-display", "none", "-no-reboot", "-qmp", "stdio",
		"-chardev", "file,id=console,append=on,path="+q.Console(), "-serial", "chardev:console",
		"-smbios", "type=1,manufacturer="+s.bmc.vendor.Manufacturer+",product=Fake 2000,serial="+s.details.serial+",uuid="+uuid("system", s.number),
		"-drive", "if=pflash,format=raw,readonly=on,file="+q.o.Code, "-drive", "if=pflash,format=raw,file="+q.file("nvram.fd"),
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file="+q.Disk(), "-device", q.o.DiskDevice+",drive=disk,bootindex=1,serial="+s.details.disks[0].serial,
		"-netdev", "user,id=n0,"+q.o.Network)
	args = append(args, q.o.Args...) // they may define the network that the port is on
	args = append(args, "-device", "virtio-net-pci,netdev="+q.o.Port+",romfile=,mac="+s.MAC())
	ctx, cancel := context.WithTimeout(ctx, mediumTimeout)
	defer cancel()
	switch {
	case boot.Source == BootHTTP:
		// The firmware's own HTTP boot needs a DHCP server that announces it. A small
		// disk with the fetched loader has the machine start the same.
		if err := q.fetch(ctx, boot.URL, "http/EFI/BOOT/BOOTX64.EFI"); err != nil {
			return nil, errors.Trace(err)
		}
		args = append(args, "-drive", "if=none,id=http,format=raw,readonly=on,file=fat:"+q.file("http"), "-device", "virtio-blk-pci,drive=http,bootindex=0")
	case boot.Source == BootCd:
		if err := q.fetch(ctx, boot.URL, "cd.iso"); err != nil {
			return nil, errors.Trace(err)
		}
		args = append(args, "-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file="+q.file("cd.iso"), "-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=cd,bootindex=0") // the kernel for clouds has no AHCI
	}
	return args, nil
}

// fetch gets a URL into one of the machine's files.
func (q *QEMU) fetch(ctx context.Context, url, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.Annotate(err, "cannot fetch the medium")
	}
	resp, err := q.o.Client.Do(req)
	if err != nil {
		return errors.Annotate(err, "cannot fetch the medium")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.Errorf("cannot fetch the medium: %s answers %s", url, resp.Status)
	}
	path := q.file(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Trace(err)
	}
	f, err := os.Create(path)
	if err != nil {
		return errors.Trace(err)
	}
	if _, err = io.Copy(f, resp.Body); err != nil {
		_ = f.Close()
		return errors.Annotate(err, "cannot fetch the medium")
	}
	return errors.Trace(f.Close())
}

// PowerOff is described by Machine.
func (q *QEMU) PowerOff(hard bool) SoftOff {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cmd == nil {
		return SoftOffIgnored // it has yet to start, or has gone off
	}
	if hard {
		_ = q.cmd.Process.Kill()
		return SoftOffObeyed
	}
	_, _ = io.WriteString(q.qmp, `{"execute":"system_powerdown"}`+"\n")
	return SoftOffAsked
}

// ProbeKVM reports whether a virtual machine really runs under KVM: it boots the
// Linux kernel in a file, without anything else, and expects it to find no root
// file system within a few seconds.
func ProbeKVM(ctx context.Context, kernel string) bool {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "512", "-nodefaults", "-display", "none",
		"-serial", "stdio", "-no-reboot", "-net", "none", "-kernel", kernel, "-append", "console=ttyS0 panic=-1").CombinedOutput()
	return strings.Contains(string(out), "Kernel panic")
}
