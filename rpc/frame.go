package rpc

import (
	"bytes"
	"sync"

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
