package powerloss

import (
	"sync"

	"github.com/juju/errors"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// Disk is a disk with a volatile cache of writes. It is safe for concurrent use.
type Disk struct {
	// Written is called after each write that Serve takes, before the client hears of
	// it. It may be nil, and is set before Serve is called.
	Written func()

	mu     sync.Mutex
	stable []byte
	cache  map[int64][]byte // by number of the sector; newer than stable
}

// NewDisk returns a disk with the content given, which it keeps. Its length must be a
// multiple of 512.
func NewDisk(content []byte) (*Disk, error) {
	if len(content) == 0 || len(content)%sectorBytes != 0 {
		return nil, errors.NotValidf("disk of %d bytes, want a multiple of %d", len(content), sectorBytes)
	}
	return &Disk{stable: content, cache: make(map[int64][]byte)}, nil
}

// Size returns the number of bytes.
func (d *Disk) Size() int64 { return int64(len(d.stable)) }

// check refuses what is not made of whole sectors of the disk.
func (d *Disk) check(n, at int64) error {
	if at < 0 || n < 0 || at+n > d.Size() || at%sectorBytes != 0 || n%sectorBytes != 0 {
		return errors.NotValidf("%d bytes at %d of a disk of %d", n, at, d.Size())
	}
	return nil
}

// ReadAt fills p, whole sectors, with the newest data.
func (d *Disk) ReadAt(p []byte, at int64) (int, error) {
	if err := d.check(int64(len(p)), at); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(p, d.stable[at:])
	for i := 0; i < len(p); i += sectorBytes {
		if s, ok := d.cache[(at+int64(i))/sectorBytes]; ok {
			copy(p[i:], s)
		}
	}
	return len(p), nil
}

// WriteAt puts whole sectors into the cache.
func (d *Disk) WriteAt(p []byte, at int64) (int, error) {
	if err := d.check(int64(len(p)), at); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(p); i += sectorBytes {
		d.cache[(at+int64(i))/sectorBytes] = append([]byte(nil), p[i:i+sectorBytes]...)
	}
	return len(p), nil
}

// Flush makes everything that was written safe.
func (d *Disk) Flush() {
	d.Cut(func() bool { return true })
}

// Cut takes the power away: of the sectors in the cache those stay for which
// keep returns true. It returns how many did not.
func (d *Disk) Cut(keep func() bool) (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, s := range d.cache {
		if keep() {
			copy(d.stable[n*sectorBytes:], s)
		} else {
			lost++
		}
	}
	clear(d.cache)
	return lost
}
