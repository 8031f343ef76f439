// Package atomicfile writes files whole or not at all, and durably: after a
// crash at any point either the old content is there or the new.
package atomicfile

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/juju/errors"
)

// Write replaces the file at path by one with this content and mode. The
// folder must be there. When it returns an error the old file is untouched. Errors of the
// file system are about path, whatever the content was written to meanwhile.
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteFunc(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteFunc is Write for content that a function writes piece by piece.
func WriteFunc(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return writeFunc(path, mode, write, os.Rename)
}

// CreateFunc is WriteFunc for a file that must not be there when its content is whole: then
// the error satisfies fs.ErrExist. On file systems without hard links it is replaced.
func CreateFunc(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return writeFunc(path, mode, write, func(tmp, path string) error {
		err := os.Link(tmp, path) // which replaces nothing; the other name goes in the end
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) {
			return os.Rename(tmp, path)
		}
		return err
	})
}

// writeFunc writes a file beside path and has put give it its name.
func writeFunc(path string, mode fs.FileMode, write func(io.Writer) error, put func(tmp, path string) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.Trace(&fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR})
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // CreateTemp makes it 0600
	if err != nil {
		return errors.Trace(about(path, err))
	}
	defer os.Remove(tmp.Name()) // nothing is there once it was renamed
	w := bufio.NewWriter(tmp)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = put(tmp.Name(), path)
	}
	if err != nil {
		return errors.Trace(about(path, err))
	}
	return SyncDir(filepath.Dir(path))
}

// about returns an error about the temporary file as one about path: nobody else knows its
// name. Others are returned as they are.
func about(path string, err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return &fs.PathError{Op: "write", Path: path, Err: e.Err}
	case *os.LinkError:
		return &fs.PathError{Op: "write", Path: path, Err: e.Err}
	}
	return err
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer d.Close()
	return errors.Trace(d.Sync())
}
