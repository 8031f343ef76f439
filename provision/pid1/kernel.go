package pid1

import (
	"os"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"golang.org/x/sys/unix"
)

var logger = loggo.GetLogger("slipway.provision.pid1")

// End is how a machine leaves the installer.
type End int

// The ways to leave.
const (
	PowerOff End = iota
	Reboot
	Kexec // into the kernel that was loaded; a reboot if there is none
)

// Kernel is what the first process asks of its kernel.
type Kernel interface {
	// Mount mounts a file system of the kernel's own.
	Mount(source, dir, fs, options string) error
	// LoadModule loads a module from a file. One that is loaded already is no error.
	LoadModule(path string) error
	// SetClock sets the time of day.
	SetClock(t time.Time) error
	// End syncs all disks and leaves. It returns only if it fails.
	End(e End) error
}

// Linux asks the kernel of the machine it runs on. Only Guard gives one.
type Linux struct{ kernelLoaded bool }

var _ Kernel = (*Linux)(nil)

// File system types of an initramfs (linux/magic.h).
const (
	ramfsMagic = 0x858458f6
	tmpfsMagic = 0x01021994
)

// Guard returns the machine's kernel if this process is the first one and its root an
// initramfs, and otherwise an error satisfying errors.NotSupported. It is what keeps
// an installer that somebody tries on a running system from touching it.
func Guard() (*Linux, error) {
	if pid := os.Getpid(); pid != 1 {
		return nil, errors.NewNotSupported(nil, "the installer runs as the first process of its initramfs only: it installs the machine it runs on")
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		return nil, errors.Annotate(err, "cannot look at root file system")
	}
	if t := uint32(st.Type); t != ramfsMagic && t != tmpfsMagic {
		return nil, errors.NewNotSupported(nil, "the installer runs from an initramfs only: this root file system is on a disk")
	}
	return &Linux{}, nil
}

// Mount implements Kernel.
func (*Linux) Mount(source, dir, fs, options string) error {
	return errors.Annotatef(unix.Mount(source, dir, fs, 0, options), "cannot mount %s", dir)
}

// LoadModule implements Kernel.
func (*Linux) LoadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Annotate(err, "cannot open module")
	}
	defer func() { _ = f.Close() }()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return errors.Annotatef(err, "cannot load module %s", path)
}

// SetClock implements Kernel.
func (*Linux) SetClock(t time.Time) error {
	tv := unix.NsecToTimeval(t.UnixNano())
	return errors.Annotate(unix.Settimeofday(&tv), "cannot set clock")
}

// End implements Kernel.
func (l *Linux) End(e End) error {
	unix.Sync()
	cmd := unix.LINUX_REBOOT_CMD_RESTART
	switch e {
	case PowerOff:
		cmd = unix.LINUX_REBOOT_CMD_POWER_OFF
	case Kexec:
		if l.kernelLoaded {
			if err := unix.Reboot(unix.LINUX_REBOOT_CMD_KEXEC); err != nil {
				logger.Errorf("kexec: %v", err)
			}
		}
	}
	return errors.Annotate(unix.Reboot(cmd), "cannot leave")
}

// Load loads a kernel to jump to; it makes Linux a loader for the pipeline.
func (l *Linux) Load(kernel, initrd, commandLine string) error {
	k, err := os.Open(kernel)
	if err != nil {
		return errors.Annotate(err, "cannot open kernel")
	}
	defer func() { _ = k.Close() }()
	flags, fd := unix.KEXEC_FILE_NO_INITRAMFS, -1
	if initrd != "" {
		i, err := os.Open(initrd)
		if err != nil {
			return errors.Annotate(err, "cannot open initramfs")
		}
		defer func() { _ = i.Close() }()
		flags, fd = 0, int(i.Fd())
	}
	if err := unix.KexecFileLoad(int(k.Fd()), fd, commandLine, flags); err != nil {
		return errors.Annotate(err, "cannot load kernel")
	}
	l.kernelLoaded = true
	return nil
}
