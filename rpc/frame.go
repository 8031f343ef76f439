package rpc

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
	"github.com/juju/loggo"
)

var logger = loggo.GetLogger("slipway.rpc")

// writeBuffers lends a buffer to a connection only while it writes, so that an
// idle connection costs none.
var writeBuffers sync.Pool

// readFrame reads one message into buf, whose former content is dropped.
func readFrame(ws *websocket.Conn, buf *bytes.Buffer) error {
	buf.Reset()
	_, r, err := ws.NextReader()
	if err != nil {
		return errors.Trace(err)
	}
	_, err = buf.ReadFrom(r)
	return errors.Trace(err)
}

// capped reads a message of at most max bytes. The limit may change meanwhile:
// a reader waits for a message long before it is sent. Each part of it is a sign of life:
// while a peer sends a long one over a slow line it can answer no ping.
type capped struct {
	from  io.Reader
	max   *atomic.Int64
	heard func() error
	read  int64
}

// Read implements io.Reader. It returns websocket.ErrReadLimit for a message
// that is too long.
func (c *capped) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.read += int64(n); c.read > c.max.Load() {
		return 0, websocket.ErrReadLimit
	}
	if err == nil && n > 0 {
		err = c.heard()
	}
	return n, err
}
