package wire

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// conn is what mgo gets. It reads from one end of a pipe, which gives it
// deadlines; what it writes is queued. Write must never block: mgo writes with
// its socket's mutex held, and its read loop needs that mutex between answers.
type conn struct {
	net.Conn // mgo's end of the pipe
	out      net.Conn
	nc       net.Conn
	br       *bufio.Reader
	d        *Dialer
	addr     string
	lastID   uint32 // of requests to the server; used by loop alone
	answers  chan Message
	owed     atomic.Bool   // the server owes an answer
	watch    *time.Timer   // looks at a server that owes one for too long
	lost     chan struct{} // closed by read when the server's side has ended
	done     chan struct{} // closed by loop when it ends

	mu     sync.Mutex
	more   sync.Cond
	queue  []Message
	tail   []byte // of a message that has not been written whole
	closed bool
	err    error // why the server's side has ended
}

// newConn returns a connection whose loop runs until Close or an error.
func newConn(d *Dialer, addr string, nc net.Conn, br *bufio.Reader) *conn {
	in, out := net.Pipe()
	c := &conn{
		Conn: in, out: out, nc: nc, br: br, d: d, addr: addr,
		answers: make(chan Message), lost: make(chan struct{}), done: make(chan struct{}),
	}
	c.more.L = &c.mu
	c.watch = time.AfterFunc(time.Hour, c.wonder)
	c.watch.Stop()
	go c.loop()
	go c.read()
	return c
}

// Write takes whole messages and parts of them.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.tail = append(c.tail, p...) // a copy: the caller may reuse p
	for len(c.tail) >= headerLen {
		n := le.Uint32(c.tail)
		if n < headerLen || n > 1<<30 {
			return 0, errors.NotValidf("message length of %d bytes", n)
		}
		if uint64(n) > uint64(len(c.tail)) {
			break
		}
		b := c.tail[:n:n]
		c.queue = append(c.queue, Message{ID: le.Uint32(b[4:]), Op: le.Uint32(b[12:]), Body: b[headerLen:]})
		c.tail = c.tail[n:]
		c.more.Signal()
	}
	if len(c.tail) == 0 {
		c.tail = nil // the queue owns the memory
	}
	return len(p), nil
}

// SetWriteDeadline does nothing: Write does not block.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// LocalAddr and RemoteAddr are those of the connection to the server.
func (c *conn) LocalAddr() net.Addr  { return c.nc.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Close ends the connection to the server and the loop.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.more.Broadcast()
	c.mu.Unlock()
	c.d.gone(c.nc)
	c.nc.Close()
	return c.Conn.Close()
}

// next waits for a message to send.
func (c *conn) next() (Message, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 && !c.closed && c.err == nil {
		c.more.Wait()
	}
	if c.closed || c.err != nil {
		return Message{}, false
	}
	m := c.queue[0]
	c.queue[0] = Message{}
	c.queue = c.queue[1:]
	return m, true
}

// read takes in what the server sends. It reads also while nothing was asked,
// so that mgo does not keep connections that the server has closed.
func (c *conn) read() {
	for {
		m, err := ReadMessage(c.br)
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.more.Broadcast()
			c.mu.Unlock()
			close(c.lost)
			return
		}
		select {
		case c.answers <- m:
		case <-c.done:
			return
		}
	}
}

// loop runs one request at a time, as the server does.
func (c *conn) loop() {
	defer c.out.Close()
	defer c.d.gone(c.nc)
	defer c.nc.Close()
	defer close(c.done)
	for {
		m, ok := c.next()
		if !ok {
			select {
			case <-c.lost:
				c.d.forget()
			default: // closed by mgo
			}
			return
		}
		if err := c.serve(m); err != nil {
			c.d.forget()
			logger.Debugf("connection to %s ends: %v", c.addr, err)
			return
		}
	}
}

// errNotPrimary ends a connection after its answer has been passed on. It is
// how mgo comes to look for the new primary.
var errNotPrimary = errors.New("the server is no longer primary")

// serve translates one message from mgo, runs it, and passes the answers on.
func (c *conn) serve(m Message) error {
	reqs, err := translate(m, func(id int64) string { return c.d.cursorClosed(cursorKey{c.addr, id}) })
	if err != nil {
		return err
	}
	for _, r := range reqs {
		if err := c.run(r); err != nil {
			return err
		}
	}
	return nil
}

// run runs one request.
func (c *conn) run(r request) error {
	if r.kind == kindHello {
		if doc := c.d.hello(c.addr); doc != nil {
			return c.pass(AppendReply(nil, r.id, replyAwaitCapable, 0, doc))
		}
	}
	if r.answer != nil {
		return c.pass(r.answer)
	}
	c.lastID++
	buf := AppendMsg(nil, c.lastID, 0, r.msg)
	if len(buf) > MaxMessage {
		return c.pass(refusal(r, len(buf)))
	}
	doc, err := c.exchange(buf, r.write)
	if err != nil {
		return err
	}
	c.note(r, doc)
	if b := answer(r, doc); b != nil {
		if err := c.pass(b); err != nil {
			return err
		}
	}
	if notPrimary(doc) {
		return errNotPrimary
	}
	return nil
}

func (c *conn) pass(b []byte) error {
	_, err := c.out.Write(b)
	return err
}

// exchange sends an encoded request and returns the answer's document.
func (c *conn) exchange(buf []byte, write bool) (bson.Raw, error) {
	if write && c.d.WriteLock != nil {
		c.d.WriteLock.Lock()
		defer c.d.WriteLock.Unlock()
	}
	c.owed.Store(true)
	c.watch.Reset(silence)
	defer func() {
		c.owed.Store(false)
		c.watch.Stop()
	}()
	if _, err := c.nc.Write(buf); err != nil {
		return nil, err
	}
	select {
	case m := <-c.answers:
		return parseAnswer(m, c.lastID)
	case <-c.lost:
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, c.err
	}
}

// wonder has a server looked at that has not answered for a while, and goes on to
// wait.
func (c *conn) wonder() {
	if !c.owed.Load() {
		return
	}
	c.d.suspect(c.addr)
	c.watch.Reset(silence)
}

// parseAnswer checks a server's answer to request id and returns its document.
func parseAnswer(m Message, id uint32) (bson.Raw, error) {
	if m.Op != OpMsg || m.To != id {
		return nil, errors.NotValidf("answer with operation %d to request %d, waiting for %d,", m.Op, m.To, id)
	}
	msg, err := ParseMsg(m.Body)
	if err != nil {
		return nil, err
	}
	if msg.MoreToCome || len(msg.Sequences) > 0 {
		return nil, errors.NotValidf("answer in several parts")
	}
	return msg.Body, msg.Body.Validate()
}

// note keeps what later requests need to know of an answer.
func (c *conn) note(r request, doc bson.Raw) {
	if r.kind == kindHello {
		c.d.mu.Lock()
		c.d.keepHello(c.addr, doc)
		c.d.mu.Unlock()
	}
	cursor, ok := doc.Lookup("cursor")
	if !ok {
		return
	}
	in, _ := cursor.Doc()
	id, ns := cursorID(in)
	switch {
	case id != 0 && ns != "":
		c.d.cursorOpen(cursorKey{c.addr, id}, ns)
	case id == 0 && r.cursor != 0:
		c.d.cursorClosed(cursorKey{c.addr, r.cursor})
	}
}
