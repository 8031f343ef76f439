// Package atomicfile writes files whole or not at all, and durably: after a
// crash at any point either the old content is there or the new.
package atomicfile

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/juju/errors"
)

// Write replaces the file at path by one with this content and mode. The
// folder must be there. When it returns an error the old file is untouched.
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteFunc(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteFunc is Write for content that a function writes piece by piece.
func WriteFunc(path string, mode fs.FileMode, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // CreateTemp makes it 0600
	if err != nil {
		return errors.Trace(err)
	}
	defer os.Remove(tmp.Name()) // nothing is there once it has its name
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
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Trace(err)
	}
	return SyncDir(filepath.Dir(path))
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
