package rpc

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/juju/errors"
)

// maxHeld is how many bytes are held back at most: what fits into one record of TLS.
const maxHeld = 16 << 10

// cork is a connection that can hold back what is written to it, so that it goes
// out with one write: under TLS that saves records as well as system calls.
type cork struct {
	net.Conn
	slack time.Duration // by which a deadline may be too early

	mu      sync.Mutex
	held    *bytes.Buffer // nil unless it holds back
	writeBy time.Time     // the deadline of Conn
}

// hold begins to hold back. What is written goes out at release, or earlier if it
// is much.
func (c *cork) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = frames.Get().(*bytes.Buffer)
	c.held.Reset()
}

// release writes what was held back, by a moment of its own: the deadline may be a
// pong's, which is short, or that of the first of many frames.
func (c *cork) release(by time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Trace(c.due(by))
	if err == nil {
		err = c.flush()
	}
	releaseFrame(c.held)
	c.held = nil
	return err
}

// flush writes what is held back. The lock is held.
func (c *cork) flush() error {
	if c.held.Len() == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.held.Bytes())
	c.held.Reset()
	return errors.Trace(err)
}

// Write implements net.Conn. Nil means little while it holds back.
func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if c.held.Len()+len(p) > maxHeld {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > maxHeld {
		return c.Conn.Write(p)
	}
	return c.held.Write(p)
}

// SetWriteDeadline implements net.Conn. A deadline that is hardly later than the
// one before is left as it is.
func (c *cork) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due(t)
}

// due sets the deadline. The lock is held.
func (c *cork) due(t time.Time) error {
	if later := t.Sub(c.writeBy); later >= 0 && later < c.slack {
		return nil
	}
	c.writeBy = t
	return c.Conn.SetWriteDeadline(t)
}

// corked is an HTTP answer of which the websocket's connection is a cork.
type corked struct {
	http.ResponseWriter
	slack time.Duration
	conn  *cork // once it is hijacked
}

// Hijack implements http.Hijacker.
func (w *corked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err // as it is: it is the upgrader's
	}
	w.conn = &cork{Conn: conn, slack: w.slack}
	return w.conn, buf, nil
}
