// Package memnet is a network in memory, for tests whose clock is testing/synctest's:
// what waits for such a connection lets that clock go on, which what waits for a
// socket does not. So nothing that these tests measure depends on how busy the
// machine is.
package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes one side may write that the other has not read.
const window = 64 << 10

// Listener is a listener that is reached through its Dial alone. Its address looks
// like one of TCP.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns a listener. Both ends must be used within one bubble of synctest,
// in which Listen is called too.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections go on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 17070} }

// Dial connects to the listener, whatever the address. It has the shape of
// net.Dialer's DialContext.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}
	there, back := newHalf(), newHalf()
	ours := &conn{in: back, out: there, local: client, remote: l.Addr()}
	theirs := &conn{in: there, out: back, local: l.Addr(), remote: client}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// half is one direction of a connection.
type half struct {
	mu      sync.Mutex
	data    []byte
	ended   bool          // by the writer: what is there may still be read
	refused bool          // by the reader: nothing may be written
	changed chan struct{} // closed, and made anew, at each change
	read    *deadline
	write   *deadline
}

func newHalf() *half {
	return &half{changed: make(chan struct{}), read: newDeadline(), write: newDeadline()}
}

// tell wakes who waits. The caller holds mu.
func (h *half) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// set changes what has come to an end, and wakes who waits.
func (h *half) set(end *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*end = true
	h.tell()
}

// take reads what there is, at least a byte.
func (h *half) take(p []byte) (int, error) {
	for {
		expired := h.read.passed()
		select {
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		h.mu.Lock()
		n, closed, ended, changed := copy(p, h.data), h.refused, h.ended, h.changed
		if n > 0 && !closed {
			h.data = h.data[n:]
			h.tell()
		}
		h.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case n > 0 || len(p) == 0:
			return n, nil
		case ended:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

// put writes all of p, in parts when the window is full.
func (h *half) put(p []byte) (written int, err error) {
	for {
		expired := h.write.passed()
		select {
		case <-expired:
			return written, os.ErrDeadlineExceeded
		default:
		}
		h.mu.Lock()
		closed, refused, changed := h.ended, h.refused, h.changed
		if n := min(len(p)-written, window-len(h.data)); n > 0 && !closed && !refused {
			h.data = append(h.data, p[written:written+n]...)
			written += n
			h.tell()
		}
		h.mu.Unlock()
		switch {
		case closed:
			return written, net.ErrClosed
		case refused:
			return written, io.ErrClosedPipe
		case written == len(p):
			return written, nil
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

// conn is one end of a connection.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.take(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.put(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: the peer reads what it has not read yet. A peer that has
// read the end can write nothing any more.
func (c *conn) Close() error {
	c.in.set(&c.in.refused)
	c.out.set(&c.out.ended)
	c.in.read.set(time.Time{})
	c.out.write.set(time.Time{})
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.read.set(t)
	c.out.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.write.set(t)
	return nil
}
