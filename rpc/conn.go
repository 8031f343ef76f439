package rpc

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
	"gopkg.in/tomb.v2"
)

// Root answers the requests of one connection.
type Root interface {
	// Call carries out a request. Params is JSON, empty when the request has
	// none, and must not be used after Call returns. The result is encoded as
	// JSON, nil as an empty object. An error that is an *Error travels with its
	// code, any other with its text alone. Ctx ends some time after Kill.
	Call(ctx context.Context, r Request, params []byte) (result any, err error)

	// Kill releases calls that wait for something to happen. No further Call is
	// made of this Root by requests read after it.
	Kill()
}

// ConnConfig says what a server grants one connection. The zero value is
// usable.
type ConnConfig struct {
	MaxFrame     int64         // bytes of one request; 0 means 4 MiB; see SetMaxFrame
	MaxRequests  int           // under way at once; 0 means 64; see SetMaxRequests
	MaxUnread    int64         // bytes of replies that wait to be sent; 0 means 64 MiB
	WriteTimeout time.Duration // for the peer to take one reply; 0 means 30 seconds
	PingInterval time.Duration // between websocket pings; 0 means 8 seconds
	PeerTimeout  time.Duration // of silence, pongs included, until the peer counts as gone; 0 means 20 seconds
	Grace        time.Duration // for calls to end once the connection closes; 0 means 3 seconds

	// Crew does the connection's work; nil means that each request takes a new
	// goroutine.
	Crew *Crew

	// Ended is called when the connection has closed, with what Wait will
	// return; nil means nobody wants to know.
	Ended func(error)
}

func (c ConnConfig) withDefaults() ConnConfig {
	orSize := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orSize(&c.MaxFrame, 4<<20)
	orSize(&c.MaxUnread, 64<<20)
	orTime(&c.WriteTimeout, 30*time.Second)
	orTime(&c.PingInterval, 8*time.Second)
	orTime(&c.PeerTimeout, 20*time.Second)
	orTime(&c.Grace, 3*time.Second)
	if c.MaxRequests == 0 {
		c.MaxRequests = 64
	}
	return c
}

// Conn is the server's end of a connection. Each request runs in a goroutine of
// its own; replies go out in the order in which they are ready, and those that
// are ready at the same time go out together.
type Conn struct {
	ws   *websocket.Conn
	wire *cork // below ws
	cfg  ConnConfig
	tomb tomb.Tomb
	root atomic.Pointer[Root]

	ctx    context.Context // of calls
	cancel context.CancelFunc

	max      atomic.Int64 // requests under way at once
	maxFrame atomic.Int64 // bytes of one request, at most cfg.MaxFrame
	running  atomic.Int64 // requests whose reply has not been written
	handlers sync.WaitGroup

	out     outbox
	writing sync.Mutex   // held while frames are written
	unread  atomic.Int64 // bytes of frames that wait to be written, or are

	silentAt time.Time // until when the peer may be silent; used by the reader alone

	pinging sync.Mutex  // held while a ping is sent
	pinger  *time.Timer // until the next ping; a goroutine would cost more memory

	names map[string]string // used by the reader alone
}

// upgrader turns HTTP requests into websockets. Credentials are never ambient
// here (no cookies), so a request's origin says nothing about its right.
var upgrader = websocket.Upgrader{
	HandshakeTimeout: 20 * time.Second,
	ReadBufferSize:   512, // for headers and small requests; kept while a connection is idle
	WriteBufferSize:  4096,
	WriteBufferPool:  &writeBuffers,
	CheckOrigin:      func(*http.Request) bool { return true },
}

// Accept turns an HTTP request into a connection, which Start then serves. On
// an error the HTTP request has been answered.
func Accept(w http.ResponseWriter, r *http.Request, cfg ConnConfig) (*Conn, error) {
	cfg = cfg.withDefaults()
	below := &corked{ResponseWriter: w, slack: cfg.WriteTimeout / slackShare}
	ws, err := upgrader.Upgrade(below, r, nil)
	if err != nil {
		return nil, errors.Annotate(err, "cannot open a websocket")
	}
	c := &Conn{ws: ws, wire: below.conn, cfg: cfg, names: make(map[string]string)}
	c.max.Store(int64(c.cfg.MaxRequests))
	c.maxFrame.Store(c.cfg.MaxFrame)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	ws.SetReadLimit(c.cfg.MaxFrame)
	ws.SetPongHandler(func(string) error { return c.heard() })
	answerPings(ws, c.cfg.WriteTimeout)
	return c, nil
}

// Start serves requests from root until the peer goes, the connection fails, or
// Kill. It must be called exactly once.
func (c *Conn) Start(root Root) {
	c.SetRoot(root)
	c.tomb.Go(c.loop)
}

// SetRoot makes root answer the requests that are read from now on.
func (c *Conn) SetRoot(root Root) { c.root.Store(&root) }

// SetMaxRequests changes how many requests may be under way at once. Those
// that exceed it are answered with ErrTooManyRequests.
func (c *Conn) SetMaxRequests(n int) { c.max.Store(int64(n)) }

// SetMaxFrame changes how many bytes a request may have, from the one that is
// being read on: fewer than the configured MaxFrame, or that many again with 0.
// The connection ends with a request that has more.
func (c *Conn) SetMaxFrame(n int64) {
	if n == 0 {
		n = c.cfg.MaxFrame
	}
	c.maxFrame.Store(n)
}

// Context ends when the connection has ended, or was given the time to.
func (c *Conn) Context() context.Context { return c.ctx }

// Kill asks the connection to close: it starts no further request, lets those
// under way end and be answered, and then closes.
func (c *Conn) Kill() { c.kill(nil) }

// Wait returns when the connection has closed and no call is under way: nil if
// either side asked for it, else why it failed.
func (c *Conn) Wait() error { return c.tomb.Wait() }

// Dead is closed when Wait would return.
func (c *Conn) Dead() <-chan struct{} { return c.tomb.Dead() }

// Dying is closed when the connection has begun to close.
func (c *Conn) Dying() <-chan struct{} { return c.tomb.Dying() }

func (c *Conn) kill(reason error) {
	c.tomb.Kill(reason)
	_ = c.ws.SetReadDeadline(time.Now()) // releases the reader
}

// drop ends the connection at once, without regard to what waits to be sent.
func (c *Conn) drop(reason error) {
	c.tomb.Kill(reason)
	_ = c.ws.Close()
}

// loop reads until there is nothing more to read, and then winds down.
func (c *Conn) loop() error {
	c.startPings()
	defer c.stopPings()
	err := c.read()
	c.tomb.Kill(err)
	(*c.root.Load()).Kill()
	grace := time.AfterFunc(c.cfg.Grace, c.cancel)
	c.handlers.Wait()
	grace.Stop()
	c.cancel()
	c.farewell(err)
	if c.cfg.Ended != nil {
		if killed := c.tomb.Err(); killed != nil && killed != tomb.ErrStillAlive {
			err = killed
		}
		c.cfg.Ended(err)
	}
	return err
}

// farewellTime is how long a peer may take to take leave.
const farewellTime = 3 * time.Second

// farewell closes the socket, telling the peer why if it is still there.
func (c *Conn) farewell(err error) {
	code, text := websocket.CloseGoingAway, ""
	switch {
	case errors.Is(err, errMalformed):
		code, text = websocket.CloseInvalidFramePayloadData, "malformed message"
	case errors.Is(err, websocket.ErrReadLimit):
		code = websocket.CloseMessageTooBig
	}
	bye := websocket.FormatCloseMessage(code, text)
	_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(farewellTime))
	_ = c.ws.Close()
}

// startPings has the peer asked for a sign of life from time to time.
func (c *Conn) startPings() {
	c.pinging.Lock()
	defer c.pinging.Unlock()
	c.pinger = time.AfterFunc(c.cfg.PingInterval, c.ping)
}

// stopPings waits until no ping is sent, and none will be. The connection must
// be dying.
func (c *Conn) stopPings() {
	c.pinging.Lock()
	defer c.pinging.Unlock()
	c.pinger.Stop()
}

// ping asks the peer for a sign of life.
func (c *Conn) ping() {
	c.pinging.Lock()
	defer c.pinging.Unlock()
	if !c.tomb.Alive() {
		return
	}
	// A failure shows as silence to the reader.
	_ = c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.cfg.WriteTimeout))
	c.pinger.Reset(c.cfg.PingInterval)
}

// slackShare is which part of a timeout is not worth moving its deadline for,
// which costs more than it looks.
const slackShare = 16

// heard notes a sign of life. It returns an error when the connection is to
// close.
func (c *Conn) heard() error {
	until := time.Now().Add(c.cfg.PeerTimeout)
	if until.Sub(c.silentAt) > c.cfg.PeerTimeout/slackShare {
		if err := c.ws.SetReadDeadline(until); err != nil {
			return errors.Trace(err)
		}
		c.silentAt = until
	}
	if !c.tomb.Alive() { // after the deadline, which Kill's then follows
		return tomb.ErrDying
	}
	return nil
}

var frames = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func releaseFrame(f *bytes.Buffer) {
	if f.Cap() <= maxKept {
		frames.Put(f)
	}
}

// read starts a handler for each request, until the connection ends. It returns
// nil when that was to be expected.
func (c *Conn) read() error {
	for {
		if err := c.heard(); err != nil {
			return c.reason(err)
		}
		frame, err := c.frame()
		if err != nil {
			return c.reason(err)
		}
		m, err := parseMessage(frame.Bytes())
		if err != nil {
			releaseFrame(frame)
			return errors.Trace(err)
		}
		if !m.isRequest() {
			releaseFrame(frame) // an answer to nothing we asked
			continue
		}
		c.begin(m, frame)
	}
}

// frame waits for a message. It takes a buffer only when one arrives, so that an
// idle connection has none.
func (c *Conn) frame() (*bytes.Buffer, error) {
	_, r, err := c.ws.NextReader()
	if err != nil {
		return nil, errors.Trace(err)
	}
	frame := frames.Get().(*bytes.Buffer)
	frame.Reset()
	if _, err := frame.ReadFrom(&capped{from: r, max: &c.maxFrame, heard: c.heard}); err != nil {
		releaseFrame(frame)
		return nil, errors.Trace(err)
	}
	return frame, nil
}

// reason tells an expected end from a failure.
func (c *Conn) reason(err error) error {
	if !c.tomb.Alive() {
		return nil
	}
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		switch closed.Code {
		case websocket.CloseNormalClosure, websocket.CloseGoingAway,
			websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
			return nil
		}
	}
	return errors.Annotate(err, "connection lost")
}

// begin starts the handler of a request, or refuses it. A request that comes
// while the connection ends gets no answer: its caller sees the connection end, as
// it would have a moment later, and so knows that trying on another one is right.
func (c *Conn) begin(m message, frame *bytes.Buffer) {
	r := Request{Type: c.name(m.typ), Version: m.version, ID: string(m.object), Method: c.name(m.method)}
	if !c.tomb.Alive() {
		releaseFrame(frame)
		return
	}
	if c.running.Load() >= c.max.Load() {
		releaseFrame(frame)
		c.refuse(m.id, m.old)
		return
	}
	root := *c.root.Load()
	c.running.Add(1)
	c.handlers.Add(1)
	q := request{Request: r, id: m.id, old: m.old, params: m.params, frame: frame}
	if len(q.params) == 0 || string(q.params) == "{}" {
		releaseFrame(frame) // the call may last, and needs nothing of it
		q.frame, q.params = nil, nil
	}
	c.cfg.Crew.run(task{c, root, q})
}

// request is a request that was read.
type request struct {
	Request
	id     uint64
	old    bool          // spelled the old way
	params []byte        // part of frame
	frame  *bytes.Buffer // nil if nothing of it is needed
}

// handle carries out one request, or begins to wait for what it asks for.
func (c *Conn) handle(root Root, q request) {
	result, err := c.call(root, q.Request, q.params)
	if q.frame != nil {
		releaseFrame(q.frame)
	}
	if later, ok := result.(Pending); ok && err == nil {
		c.await(q.id, q.old, later)
		return
	}
	e := newEncoder()
	e.reply(q.id, q.old, result, err)
	c.post(e)
}

// call is Root.Call, with a panic turned into an error of that call.
func (c *Conn) call(root Root, r Request, params []byte) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, panicked(fmt.Sprintf("%s(%d).%s", r.Type, r.Version, r.Method), p)
		}
	}()
	return root.Call(c.ctx, r, params)
}

// panicked logs a panic that was recovered from, and returns what the peer is told.
func panicked(where string, value any) error {
	logger.Errorf("panic in %s: %v\n%s", where, value, debug.Stack())
	return errors.New("internal error")
}

// maxNames bounds how many names a connection remembers.
const maxNames = 64

// name returns b as a string, the same one for the same name.
func (c *Conn) name(b []byte) string {
	if s, ok := c.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(c.names) < maxNames && len(s) < maxNames {
		c.names[s] = s
	}
	return s
}
