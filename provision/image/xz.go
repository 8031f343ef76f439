package image

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/juju/errors"
	"github.com/ulikunitz/xz/lzma"
)

// xzReader reads the .xz container (version 1.2.1 of its format) and leaves
// the LZMA2 data to a library. The container is read here because each of its blocks declares
// a dictionary, which is refused above maxWindow before memory is taken for it.
type xzReader struct {
	in    *bufio.Reader
	count *counter // of what is read through in
	check byte     // of the stream
	block io.Reader
	sum   hash.Hash
	start int64 // of the block's data
	begun bool  // a stream header was read
	err   error
}

// counter counts what is read, and gives single bytes so that no more is
// taken than asked for.
type counter struct {
	r *bufio.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func newXzReader(r io.Reader) *xzReader {
	in := bufio.NewReaderSize(r, 1<<16)
	return &xzReader{in: in, count: &counter{r: in}}
}

const xzMagic = "\xfd7zXZ\x00"

// checkXz refuses a first block that cannot be unpacked.
func checkXz(head []byte) error {
	x := newXzReader(bytes.NewReader(head))
	err := x.next()
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // an empty stream; reading it will tell
	}
	return err
}

// Read implements io.Reader.
func (x *xzReader) Read(p []byte) (int, error) {
	for x.err == nil {
		if x.block == nil {
			x.err = x.next()
			continue
		}
		n, err := x.block.Read(p)
		x.sum.Write(p[:n])
		if err == io.EOF {
			x.block = nil
			x.err = x.endBlock()
		} else if err != nil {
			x.err = errors.Annotate(errors.WithType(err, ErrMismatch), "cannot unpack xz")
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, x.err
}

var errXz = errors.Annotate(ErrMismatch, "xz container is damaged")

// next goes one step towards the next block's data, or gives io.EOF.
func (x *xzReader) next() error {
	if !x.begun {
		if err := x.header(); err != nil {
			return err
		}
	}
	size, err := x.count.ReadByte()
	if err != nil {
		return unexpected(err)
	}
	if size == 0 {
		if err := x.index(); err != nil {
			return err
		}
		x.begun = false
		return nil // the caller asks again: another stream may follow
	}
	h := make([]byte, int(size)*4+4)
	h[0] = size
	if _, err := io.ReadFull(x.count, h[1:]); err != nil {
		return unexpected(err)
	}
	body := h[:len(h)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(h[len(body):]) {
		return errXz
	}
	dict, err := dictionary(body)
	if err != nil {
		return err
	}
	x.start = x.count.n
	x.sum = newCheck(x.check)
	x.block, err = lzma.Reader2Config{DictCap: max(dict, lzma.MinDictCap)}.NewReader2(x.count)
	return errors.Annotate(err, "cannot unpack xz")
}

// header reads a stream's header, and the padding in front of it. Without one
// more the file ends.
func (x *xzReader) header() error {
	first := x.count.n == 0
	for {
		b, err := x.in.Peek(4)
		if len(b) == 0 && err == io.EOF && !first {
			return io.EOF
		}
		if len(b) < 4 {
			return unexpected(err)
		}
		if first || !bytes.Equal(b, make([]byte, 4)) {
			break
		}
		if _, err := io.CopyN(io.Discard, x.count, 4); err != nil {
			return unexpected(err)
		}
	}
	h := make([]byte, 12)
	if _, err := io.ReadFull(x.count, h); err != nil {
		return unexpected(err)
	}
	if string(h[:6]) != xzMagic || h[6] != 0 || crc32.ChecksumIEEE(h[6:8]) != binary.LittleEndian.Uint32(h[8:]) {
		return errXz
	}
	x.check, x.begun = h[7]&0xf, true
	if newCheck(x.check) == nil {
		return errors.NotSupportedf("xz check %d", x.check)
	}
	return nil
}

// dictionary reads the dictionary's size from a block header.
func dictionary(h []byte) (int, error) {
	flags, rest := h[1], h[2:]
	for _, bit := range []byte{0x40, 0x80} { // compressed and uncompressed size
		if flags&bit != 0 {
			_, n := binary.Uvarint(rest)
			if n <= 0 {
				return 0, errXz
			}
			rest = rest[n:]
		}
	}
	if flags&0x3 != 0 || len(rest) < 3 || rest[0] != 0x21 || rest[1] != 1 {
		return 0, errors.NotSupportedf("xz filter other than LZMA2")
	}
	size, err := lzma.DecodeDictCap(rest[2])
	if err != nil {
		return 0, errXz
	}
	if size > maxWindow {
		return 0, windowError(formatXz, uint64(size))
	}
	return int(size), nil
}

// endBlock reads a block's padding and check.
func (x *xzReader) endBlock() error {
	pad := (4 - (x.count.n-x.start)%4) % 4
	sum := x.sum.Sum(nil)
	b := make([]byte, int(pad)+len(sum))
	if _, err := io.ReadFull(x.count, b); err != nil {
		return unexpected(err)
	}
	if !bytes.Equal(b[pad:], sum) {
		return errXz
	}
	return nil
}

// index reads what follows the last block; the first byte, zero, has been read.
func (x *xzReader) index() error {
	start := x.count.n - 1
	records, err := binary.ReadUvarint(x.count)
	if err != nil {
		return unexpected(err)
	}
	for range records {
		for range 2 {
			if _, err := binary.ReadUvarint(x.count); err != nil {
				return unexpected(err)
			}
		}
	}
	pad := (4 - (x.count.n-start)%4) % 4
	end := make([]byte, pad+4+12) // padding, checksum, footer
	if _, err := io.ReadFull(x.count, end); err != nil {
		return unexpected(err)
	}
	if string(end[len(end)-2:]) != "YZ" {
		return errXz
	}
	return nil
}

// unexpected turns an early end into one.
func unexpected(err error) error {
	if err == io.EOF || err == nil {
		return errors.Trace(io.ErrUnexpectedEOF)
	}
	return err
}

// littleSum gives a checksum in little endian order, as xz stores it.
type littleSum struct{ hash.Hash }

func (l littleSum) Sum(b []byte) []byte {
	s := l.Hash.Sum(nil)
	for i := len(s) - 1; i >= 0; i-- {
		b = append(b, s[i])
	}
	return b
}

// none is the check of no bytes.
type none struct{ hash.Hash }

func (none) Write(p []byte) (int, error) { return len(p), nil }
func (none) Sum(b []byte) []byte         { return b }

// newCheck returns the hash of a check id, nil for an unknown one.
func newCheck(id byte) hash.Hash {
	switch id {
	case 0:
		return none{}
	case 1:
		return littleSum{crc32.NewIEEE()}
	case 4:
		return littleSum{crc64.New(crc64.MakeTable(crc64.ECMA))}
	case 10:
		return sha256.New()
	}
	return nil
}
