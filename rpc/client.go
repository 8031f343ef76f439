package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
	"gopkg.in/tomb.v2"
)

// DialConfig says how to reach a server. URL is required.
type DialConfig struct {
	URL    string      // "wss://host:port/path"
	TLS    *tls.Config // nil means the system's certificate authorities
	Header http.Header // sent with the handshake; nil means none

	Timeout      time.Duration // for the handshake, connecting included; 0 means 20 seconds
	WriteTimeout time.Duration // for sending one request; 0 means 30 seconds
	MaxFrame     int64         // bytes of one reply; 0 means 64 MiB

	// NetDial makes the TCP connection; nil means the net package's dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// withDefaults returns the configuration with its zero fields filled in.
func (c DialConfig) withDefaults() DialConfig {
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 64 << 20
	}
	return c
}

// Client sends requests over one connection. Its methods may be called
// concurrently. It must be closed, also when the connection has broken.
type Client struct {
	ws           *websocket.Conn
	tomb         tomb.Tomb
	writeTimeout time.Duration

	writing sync.Mutex // held while a frame is written

	mu      sync.Mutex
	last    uint64                 // the last request's number
	pending map[uint64]chan []byte // nil once the connection has ended
}

// Dial connects to a server. An answer other than a websocket's is an error
// that names the HTTP status, and satisfies errors.NotFound for status 404. What
// has not come in time is an error satisfying context.DeadlineExceeded.
func Dial(ctx context.Context, cfg DialConfig) (*Client, error) {
	cfg = cfg.withDefaults()
	d := websocket.Dialer{
		NetDialContext:   cfg.NetDial,
		TLSClientConfig:  cfg.TLS,
		HandshakeTimeout: cfg.Timeout,
		ReadBufferSize:   4096,
		WriteBufferSize:  4096,
		WriteBufferPool:  &writeBuffers,
		Proxy:            http.ProxyFromEnvironment,
	}
	ws, answer, err := d.DialContext(ctx, cfg.URL, cfg.Header)
	if err != nil {
		if answer == nil {
			return nil, errors.Annotatef(late(ctx, err), "cannot connect to %s", cfg.URL)
		}
		if answer.StatusCode == http.StatusNotFound {
			return nil, errors.NotFoundf("API at %s", cfg.URL)
		}
		return nil, errors.Errorf("cannot connect to %s: server answered %s", cfg.URL, answer.Status)
	}
	ws.SetReadLimit(cfg.MaxFrame)
	answerPings(ws, cfg.WriteTimeout)
	c := &Client{ws: ws, writeTimeout: cfg.WriteTimeout, pending: make(map[uint64]chan []byte)}
	c.tomb.Go(c.read)
	return c, nil
}

// late returns the failure to connect as the error of ctx if that is why: the
// deadline of ctx is one of the socket's too, which may notice it first.
func late(ctx context.Context, err error) error {
	why := ctx.Err()
	if why == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		why = context.DeadlineExceeded
	}
	if why == nil || errors.Is(err, why) {
		return err
	}
	return errors.Annotate(why, err.Error())
}

// Call sends a request and waits for its reply, which it decodes into result.
// Nil params are sent as none, and a nil result discards the reply.
//
// The call's own failure is an *Error. A connection that has ended, before or
// while waiting, gives an error satisfying errors.Is(err, ErrShutdown); whether
// the request was carried out is then unknown. When ctx is done first, its
// error is returned, and likewise nothing is known.
func (c *Client) Call(ctx context.Context, r Request, params, result any) error {
	if err := ctx.Err(); err != nil {
		return errors.Trace(err)
	}
	id, answer, err := c.register()
	if err != nil {
		return err
	}
	defer c.forget(id)
	if err := c.send(id, r, params); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case frame, ok := <-answer:
		if !ok {
			return ErrShutdown
		}
		return decodeReply(frame, result)
	}
}

// register makes room for the reply to a new request.
func (c *Client) register() (uint64, <-chan []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return 0, nil, ErrShutdown
	}
	c.last++
	answer := make(chan []byte, 1)
	c.pending[c.last] = answer
	return c.last, answer, nil
}

// forget drops the room made for a reply.
func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// send writes the frame of a request.
func (c *Client) send(id uint64, r Request, params any) error {
	e := newEncoder()
	defer e.release()
	if err := e.request(id, r, params); err != nil {
		e.buf.Reset()
		return errors.Annotatef(err, "cannot encode the parameters of %s.%s", r.Type, r.Method)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(c.writeTimeout)) // always nil
	if err := c.ws.WriteMessage(websocket.TextMessage, e.buf.Bytes()); err != nil {
		c.end(errors.Annotate(err, "cannot send"))
		_ = c.ws.Close() // releases the reader, which reports
		return ErrShutdown
	}
	return nil
}

// read delivers replies until the connection ends.
func (c *Client) read() error {
	var buf bytes.Buffer
	err := c.readAll(&buf)
	_ = c.ws.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, answer := range c.pending {
		close(answer)
	}
	c.pending = nil
	return err
}

func (c *Client) readAll(buf *bytes.Buffer) error {
	for {
		if err := readFrame(c.ws, buf); err != nil {
			if !c.tomb.Alive() {
				return tomb.ErrDying
			}
			return errors.Annotate(err, "connection lost")
		}
		m, err := parseMessage(buf.Bytes())
		if err != nil {
			return errors.Annotate(err, "cannot read a reply")
		}
		if m.isRequest() {
			continue // servers ask nothing of clients
		}
		c.deliver(m.id, bytes.Clone(buf.Bytes()))
		if buf.Cap() > maxKept {
			*buf = bytes.Buffer{}
		}
	}
}

// deliver hands a reply to the call that waits for it, if one still does.
func (c *Client) deliver(id uint64, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.pending[id]; ok {
		delete(c.pending, id)
		answer <- frame // has room for one
	}
}

// decodeReply turns a reply's frame into a result or an error.
func decodeReply(frame []byte, result any) error {
	m, err := parseMessage(frame)
	if err != nil {
		return errors.Annotate(err, "cannot read a reply")
	}
	if len(m.err) > 0 {
		failure := &Error{Message: string(m.err), Code: string(m.code)}
		if len(m.info) > 0 {
			if err := json.Unmarshal(m.info, &failure.Info); err != nil {
				failure.Info = nil // what is said about the error is not an object
			}
		}
		return failure
	}
	if result == nil || len(m.response) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.response, result); err != nil {
		return errors.Annotate(err, "cannot decode the result")
	}
	return nil
}

// Close ends the connection and waits for it. Calls under way return
// ErrShutdown. It may be called more than once. The error is why the connection
// had ended before, if it had.
func (c *Client) Close() error {
	c.end(nil)
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	_ = c.ws.Close()
	return c.tomb.Wait()
}

// end notes why the connection ends. What follows from an end is not why: a request that cannot be
// sent because Close was faster.
func (c *Client) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tomb.Alive() {
		c.tomb.Kill(why)
	}
}

// Dead is closed when the connection has ended, for whatever reason.
func (c *Client) Dead() <-chan struct{} { return c.tomb.Dead() }

// Err returns why the connection ended: nil after Close, and tomb.ErrStillAlive
// while it has not.
func (c *Client) Err() error { return c.tomb.Err() }
