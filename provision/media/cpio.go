package media

import (
	"fmt"
	"io"
	"path"
	"sort"

	"github.com/juju/errors"
)

// Archive is a cpio archive in the form "newc" that a Linux kernel unpacks as its
// first root file system (Documentation/driver-api/early-userspace/buffer-format.rst). The zero
// value is an empty archive.
type Archive struct {
	entries map[string]entry
}

// entry is one file: its mode with the type, and its content or link target.
type entry struct {
	mode uint32
	data []byte
	dev  [2]uint32 // major and minor of a device node
}

// Types of a file in a mode (stat(2)).
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
	typeChar = 0o020000
)

// File adds a regular file, and the folders above it.
func (a *Archive) File(name string, perm uint32, data []byte) {
	a.add(name, entry{mode: typeFile | perm&0o7777, data: data})
}

// Link adds a symbolic link.
func (a *Archive) Link(name, target string) {
	a.add(name, entry{mode: typeLink | 0o777, data: []byte(target)})
}

// Dir adds a folder.
func (a *Archive) Dir(name string) { a.add(name, entry{mode: typeDir | 0o755}) }

// Char adds a character device.
func (a *Archive) Char(name string, perm, major, minor uint32) {
	a.add(name, entry{mode: typeChar | perm, dev: [2]uint32{major, minor}})
}

// Has reports whether the archive has name.
func (a *Archive) Has(name string) bool {
	_, ok := a.entries[clean(name)]
	return ok
}

func (a *Archive) add(name string, e entry) {
	name = clean(name)
	if a.entries == nil {
		a.entries = map[string]entry{}
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := a.entries[dir]; !ok {
			a.entries[dir] = entry{mode: typeDir | 0o755}
		}
	}
	a.entries[name] = e
}

// clean makes a name relative to the root.
func clean(name string) string { return path.Clean("/" + name)[1:] }

// WriteTo writes the archive, sorted, with times of zero: the same files give the same
// bytes. It ends on a multiple of four bytes, so another archive may follow.
func (a *Archive) WriteTo(w io.Writer) (int64, error) {
	names := make([]string, 0, len(a.entries))
	for name := range a.entries {
		names = append(names, name)
	}
	sort.Strings(names) // a folder comes before what is in it
	c := &counted{w: w}
	for i, name := range names {
		c.record(uint32(i+1), name, a.entries[name])
	}
	c.record(0, "TRAILER!!!", entry{})
	return c.n, errors.Annotate(c.err, "cannot write archive")
}

// counted writes records and remembers the first error.
type counted struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counted) write(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(b)
		c.n += int64(n)
	}
}

// record writes one entry.
func (c *counted) record(inode uint32, name string, e entry) {
	c.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", inode, e.mode, 0, 0, 1, 0, len(e.data), 0, 0, e.dev[0], e.dev[1], len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad()
	c.write(e.data)
	c.pad()
}

func (c *counted) pad() { c.write(make([]byte, (4-c.n%4)%4)) }
