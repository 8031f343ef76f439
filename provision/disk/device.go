package disk

import (
	"io"
	"os"
	"time"
	"unsafe"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// Device is an open block device.
type Device interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the device's size in bytes.
	Size() (int64, error)
	// Sync returns when all that was written is on the medium.
	Sync() error
	// Reread makes the kernel read the partition table anew.
	Reread() error
}

// Devices opens block devices by their path below /dev. The error satisfies
// errors.NotFound if there is no such device and errors.NotValid if the path names
// something else.
type Devices interface {
	Open(path string, write bool) (Device, error)
}

// HostDevices opens the block devices of the machine it runs on.
type HostDevices struct{}

// Open implements Devices. A device that is open for writing is exclusive: the
// open fails while a file system on it is mounted.
func (HostDevices) Open(path string, write bool) (Device, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR | unix.O_EXCL
	}
	f, err := os.OpenFile(path, flag, 0)
	if os.IsNotExist(err) {
		return nil, errors.NotFoundf("device %s", path)
	} else if err != nil {
		return nil, errors.Annotatef(err, "cannot open device %s", path)
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeDevice == 0 || st.Mode()&os.ModeCharDevice != 0 {
		_ = f.Close()
		return nil, errors.NotValidf("%s, which is not a block device,", path)
	}
	return &hostDevice{f}, nil
}

type hostDevice struct{ *os.File }

// Size implements Device.
func (d *hostDevice) Size() (int64, error) {
	n, err := d.Seek(0, io.SeekEnd)
	return n, errors.Annotatef(err, "cannot get size of %s", d.Name())
}

// StartSync begins to bring what was written between offset and offset+length onto the medium
// and does not wait for it (sync_file_range(2)). Errors are those of the next Sync.
func (d *hostDevice) StartSync(offset, length int64) {
	_ = unix.SyncFileRange(int(d.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE)
}

// Zero makes length bytes at offset zero without sending them, where the drive can
// (BLKZEROOUT of linux/fs.h). Both are multiples of the logical block.
func (d *hostDevice) Zero(offset, length int64) error {
	span := [2]uint64{uint64(offset), uint64(length)}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, d.Fd(), blkZeroOut, uintptr(unsafe.Pointer(&span)))
	if e != 0 {
		return errors.Annotatef(e, "cannot zero part of %s", d.Name())
	}
	return nil
}

// blkZeroOut is BLKZEROOUT.
const blkZeroOut = 0x127f

// Reread implements Device. It tries for a few seconds, since programs that
// look at new devices hold them open for a moment.
func (d *hostDevice) Reread() error {
	var err error
	for range 20 {
		if err = unix.IoctlSetInt(int(d.Fd()), unix.BLKRRPART, 0); err == nil {
			return nil
		}
		if err != unix.EBUSY {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return errors.Annotatef(err, "cannot reread partition table of %s", d.Name())
}
