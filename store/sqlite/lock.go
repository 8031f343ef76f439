package sqlite

import (
	stderrors "errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/juju/errors"
)

// lock takes the data directory for this process and returns the open file
// that holds it. The kernel releases the lock when the process ends, however it
// ends. The file contains the owner's process id, for the message to others.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = inUse(path)
	} else if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, errors.Trace(err)
	}
	return f, nil
}

// inUse returns the error that names the owner.
func inUse(path string) error {
	owner := "another process" // one that has not written its id yet
	if content, err := os.ReadFile(path); err == nil {
		if pid := strings.TrimSpace(string(content)); pid != "" {
			owner = "process " + pid
		}
	}
	return errors.WithType(errors.Errorf("in use by %s; stop it first, or choose another data directory", owner), ErrInUse)
}

// unlock gives the data directory back. The file stays: removing it could
// take it away from the next owner.
func unlock(f *os.File) error {
	return errors.Trace(stderrors.Join(f.Truncate(0), f.Close()))
}
