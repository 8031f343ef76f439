package site

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/juju/errors"
)

// ErrInUse says that another process is preparing a data directory.
const ErrInUse = errors.ConstError("data directory is in use")

// lock keeps other processes from preparing the directory, which must be there, until
// what it returns is called or this process ends. It returns an error satisfying
// ErrInUse, which names the process, if another one has it.
func (d Dir) lock() (unlock func(), err error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, errors.Annotatef(err, "cannot open data directory %s", d)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.WithType(errors.Errorf("data directory %s is in use by %s, which prepares it: wait until it is done, or name another directory", d, holder(f)), ErrInUse)
	}
	if err != nil {
		_ = f.Close() // it was only opened
		return nil, errors.Trace(err)
	}
	return func() { _ = f.Close() }, nil
}

// free returns an error satisfying ErrInUse if another process is preparing the
// directory.
func (d Dir) free() error {
	unlock, err := d.lock()
	if err == nil {
		unlock()
	}
	return err
}

// holder returns who holds a file locked, as far as the kernel tells.
func holder(f *os.File) string {
	const unknown = "another process"
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		return unknown
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return unknown
	}
	defer locks.Close()
	inode := fmt.Sprintf(":%d", stat.Ino) // after the device, which the kernel spells otherwise for some file systems
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF
		if f := strings.Fields(lines.Text()); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], inode) {
			return "process " + f[4]
		}
	}
	return unknown
}
