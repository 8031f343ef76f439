package image

import (
	"bytes"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/disk"
)

// edge is how much of both ends of a disk is written last.
const edge = 1 << 20

// zeroer is a device that can be told to hold zeros without being sent them.
type zeroer interface {
	Zero(offset, length int64) error
}

// starter is a device that can begin to bring what was written onto its medium. It does
// not wait for the end of that, and errors are left to Sync.
type starter interface {
	StartSync(offset, length int64)
}

// startEvery is after how many bytes a starter is told to begin. Without that the medium
// idles until the kernel finds that there is enough to do, and the last Sync waits long.
const startEvery = 8 << 20

// zeroChunk is compared with, and written where a device is no zeroer.
var zeroChunk = make([]byte, chunkSize)

// granule is the unit in which zeros are looked for, in bytes.
const granule = 64 << 10

// blockWriter writes content to a device from front to back, except that the first
// and last mebibyte of the device are zeroed by clear and written by commit.
type blockWriter struct {
	d        disk.Device
	size     int64
	at       int64 // next byte of content
	head     []byte
	tail     []byte // from tailFrom
	tailFrom int64

	zeroFrom, zeroLen int64 // a run of zeros not written yet
	started           int64 // up to where the device was told to begin
}

// newBlockWriter returns a writer to the device. The device is not touched before clear.
func newBlockWriter(d disk.Device, size int64) *blockWriter {
	return &blockWriter{d: d, size: size, tailFrom: max(min(edge, size), size-edge)}
}

// clear makes the device unbootable. It comes before any write.
func (w *blockWriter) clear() error {
	for _, end := range []struct{ from, to int64 }{{0, min(edge, w.size)}, {w.tailFrom, w.size}} {
		if _, err := w.d.WriteAt(zeroChunk[:end.to-end.from], end.from); err != nil {
			return errors.Annotate(err, "cannot clear ends of disk")
		}
	}
	return errors.Annotate(w.d.Sync(), "cannot clear ends of disk")
}

// written returns how many bytes of content were taken.
func (w *blockWriter) written() int64 { return w.at }

// write takes the next bytes of content.
func (w *blockWriter) write(p []byte) error {
	if w.at+int64(len(p)) > w.size {
		return errors.Annotatef(ErrTooLarge, "disk of %d bytes", w.size)
	}
	for len(p) > 0 {
		var n int
		switch {
		case w.at < edge:
			n = int(min(int64(len(p)), edge-w.at))
			w.head = append(w.head, p[:n]...)
		case w.at >= w.tailFrom:
			n = len(p)
			w.tail = append(w.tail, p...)
		default:
			n = int(min(int64(len(p)), w.tailFrom-w.at))
			if err := w.body(p[:n]); err != nil {
				return err
			}
		}
		w.at += int64(n)
		p = p[n:]
	}
	return nil
}

// body writes bytes that belong between the ends, at w.at. Granules of zeros
// are collected to be zeroed without being sent.
func (w *blockWriter) body(p []byte) error {
	at := w.at
	from := 0 // of the data not written yet
	for i := 0; i < len(p); {
		n := min(granule-int((at+int64(i))%granule), len(p)-i)
		if !bytes.Equal(p[i:i+n], zeroChunk[:n]) {
			i += n
			continue
		}
		if err := w.data(p[from:i], at+int64(from)); err != nil {
			return err
		}
		if err := w.zeros(at+int64(i), int64(n)); err != nil {
			return err
		}
		i += n
		from = i
	}
	return w.data(p[from:], at+int64(from))
}

// data writes bytes at their place, after the zeros in front of them.
func (w *blockWriter) data(p []byte, at int64) error {
	if len(p) == 0 {
		return nil
	}
	if err := w.flushZeros(); err != nil {
		return err
	}
	if _, err := w.d.WriteAt(p, at); err != nil {
		return errors.Annotatef(err, "cannot write to disk at byte %d", at)
	}
	if end := at + int64(len(p)); end-w.started >= startEvery {
		if s, ok := w.d.(starter); ok {
			s.StartSync(w.started, end-w.started)
		}
		w.started = end
	}
	return nil
}

// zeros adds to the run of zeros, or begins another.
func (w *blockWriter) zeros(at, n int64) error {
	if w.zeroLen > 0 && w.zeroFrom+w.zeroLen != at {
		if err := w.flushZeros(); err != nil {
			return err
		}
	}
	if w.zeroLen == 0 {
		w.zeroFrom = at
	}
	w.zeroLen += n
	return nil
}

// skip takes n bytes of zeros of content.
func (w *blockWriter) skip(n int64) error {
	if w.at+n > w.size {
		return errors.Annotatef(ErrTooLarge, "disk of %d bytes", w.size)
	}
	for n > 0 {
		if w.at >= edge && w.at < w.tailFrom {
			m := min(n, w.tailFrom-w.at)
			if err := w.zeros(w.at, m); err != nil {
				return err
			}
			w.at += m
			n -= m
			continue
		}
		m := min(n, chunkSize)
		if err := w.write(zeroChunk[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// flushZeros makes the collected run zero on the device.
func (w *blockWriter) flushZeros() error {
	from, n := w.zeroFrom, w.zeroLen
	w.zeroLen = 0
	if n == 0 {
		return nil
	}
	if z, ok := w.d.(zeroer); ok && from%4096 == 0 && n%4096 == 0 {
		if err := z.Zero(from, n); err == nil {
			return nil
		}
	}
	for n > 0 {
		m := min(n, chunkSize)
		if _, err := w.d.WriteAt(zeroChunk[:m], from); err != nil {
			return errors.Annotatef(err, "cannot write to disk at byte %d", from)
		}
		from, n = from+m, n-m
	}
	return nil
}

// commit makes the content whole: everything else first, then the end, then the
// beginning, each on the medium before the next.
func (w *blockWriter) commit() error {
	if err := w.flushZeros(); err != nil {
		return err
	}
	for _, end := range []struct {
		data []byte
		at   int64
	}{{nil, 0}, {w.tail, w.tailFrom}, {w.head, 0}} {
		if len(end.data) > 0 {
			if _, err := w.d.WriteAt(end.data, end.at); err != nil {
				return errors.Annotate(err, "cannot write ends of disk")
			}
		}
		if err := w.d.Sync(); err != nil {
			return errors.Annotate(err, "cannot bring image onto disk")
		}
	}
	return nil
}
