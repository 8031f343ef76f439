package powerloss

import (
	"bufio"
	"encoding/binary"
	"io"
	"syscall"

	"github.com/juju/errors"
)

// Numbers of the NBD protocol (doc/proto.md of the NetworkBlockDevice project): fixed
// new style, simple replies.
const (
	nbdMagic      = 0x4e42444d41474943 // "NBDMAGIC"
	optionMagic   = 0x49484156454f5054 // "IHAVEOPT"
	replyMagic    = 0x3e889045565a9
	requestMagic  = 0x25609513
	responseMagic = 0x67446698

	fixedNewStyle, noZeroes = 1, 2 // of a handshake
	hasFlags, sendFlush     = 1, 4 // of an export: it wants flushes

	optionAbort, optionGo = 2, 7
	replyAck, replyInfo   = 1, 3
	replyUnsupported      = 1<<31 + 1

	commandRead, commandWrite, commandDisconnect, commandFlush = 0, 1, 2, 3

	errorInvalid = 22 // EINVAL

	maxRequest = 64 << 20 // bytes; more is no request of QEMU
)

// Serve answers one client until it goes away, which is no error.
func (d *Disk) Serve(conn io.ReadWriter) error {
	c := &client{disk: d, r: bufio.NewReaderSize(conn, 1<<20), w: bufio.NewWriterSize(conn, 1<<20)}
	ready, err := c.handshake()
	for ready && err == nil {
		ready, err = c.request()
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} { // the last two if it was killed
		if errors.Is(err, gone) {
			return nil
		}
	}
	return errors.Annotate(err, "cannot serve the disk")
}

// client is a connection.
type client struct {
	disk *Disk
	r    *bufio.Reader
	w    *bufio.Writer
}

func (c *client) get(v any) error { return binary.Read(c.r, binary.BigEndian, v) }

// put writes values and sends them.
func (c *client) put(values ...any) error {
	for _, v := range values {
		if err := binary.Write(c.w, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return c.w.Flush()
}

// handshake answers options until the client wants the disk, and returns false
// if it does not.
func (c *client) handshake() (bool, error) {
	if err := c.put(uint64(nbdMagic), uint64(optionMagic), uint16(fixedNewStyle|noZeroes)); err != nil {
		return false, err
	}
	var flags uint32
	if err := c.get(&flags); err != nil {
		return false, err
	}
	for {
		var o struct {
			Magic          uint64
			Option, Length uint32
		}
		if err := c.get(&o); err != nil {
			return false, err
		}
		if o.Magic != optionMagic {
			return false, errors.NotValidf("option with magic %#x", o.Magic)
		}
		if _, err := c.r.Discard(int(o.Length)); err != nil { // the name of the export: there is one
			return false, err
		}
		var err error
		switch o.Option {
		case optionGo:
			export := []any{uint16(0), uint64(c.disk.Size()), uint16(hasFlags | sendFlush)}
			err = c.put(append([]any{uint64(replyMagic), o.Option, uint32(replyInfo), uint32(12)}, export...)...)
			if err == nil {
				err = c.put(uint64(replyMagic), o.Option, uint32(replyAck), uint32(0))
			}
			return err == nil, err
		case optionAbort:
			return false, c.put(uint64(replyMagic), o.Option, uint32(replyAck), uint32(0))
		default:
			err = c.put(uint64(replyMagic), o.Option, uint32(replyUnsupported), uint32(0))
		}
		if err != nil {
			return false, err
		}
	}
}

// request answers one request, and returns false for the one that ends all.
func (c *client) request() (bool, error) {
	var q struct {
		Magic       uint32
		Flags, Type uint16
		Handle      uint64
		Offset      uint64
		Length      uint32
	}
	if err := c.get(&q); err != nil {
		return false, err
	}
	if q.Magic != requestMagic || q.Length > maxRequest {
		return false, errors.NotValidf("request with magic %#x for %d bytes", q.Magic, q.Length)
	}
	var data []byte
	var err error
	switch q.Type {
	case commandRead:
		data = make([]byte, q.Length)
		_, err = c.disk.ReadAt(data, int64(q.Offset))
	case commandWrite:
		p := make([]byte, q.Length)
		if _, err := io.ReadFull(c.r, p); err != nil { // cut off: none of it was written
			return false, err
		}
		_, err = c.disk.WriteAt(p, int64(q.Offset))
		if c.disk.Written != nil {
			c.disk.Written()
		}
	case commandFlush:
		c.disk.Flush()
	case commandDisconnect:
		return false, nil
	default:
		err = errors.NotSupportedf("command %d", q.Type)
	}
	if err != nil {
		return true, c.put(uint32(responseMagic), uint32(errorInvalid), q.Handle)
	}
	return true, c.put(uint32(responseMagic), uint32(0), q.Handle, data)
}
