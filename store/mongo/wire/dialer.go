package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

var logger = loggo.GetLogger("slipway.store.mongo.wire")

const (
	// oldestMsg is the first wire version with OP_MSG (MongoDB 3.6).
	oldestMsg = 6
	// helloFresh is how long a server's description is answered from memory.
	// After a lost connection mgo asks for it before every single operation,
	// for as long as it knows the server.
	helloFresh = 250 * time.Millisecond
)

// Dialer opens connections to the servers of one deployment. Set its fields
// before the first use; its methods may be called concurrently.
type Dialer struct {
	TLS     *tls.Config   // nil means plain TCP; the server's name defaults to the address
	AppName string        // what the server's log calls us; "" means slipway
	Timeout time.Duration // for connecting and shaking hands; 0 means 10 seconds

	// Dial opens the connection below TLS; nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// WriteLock, when not nil, is held while a write command is under way. It
	// is for servers whose updates are not atomic, on the test bench.
	WriteLock sync.Locker

	mu      sync.Mutex
	closed  bool
	live    map[net.Conn]bool
	cursors map[cursorKey]string // the namespace of each open cursor
	hellos  map[string]helloEntry
	lastErr error // of the latest attempt to connect; nil after a success
}

type cursorKey struct {
	addr string
	id   int64
}

type helloEntry struct {
	doc bson.Raw
	at  time.Time
}

// Hello is what a server says of itself.
type Hello struct {
	MinWireVersion int
	MaxWireVersion int
	SetName        string // of its replica set; "" if it is in none
	Uninitiated    bool   // started as a member of a replica set that was never initiated
	Primary        bool
	Secondary      bool
	Router         bool // a mongos
}

// Probe connects, shakes hands and disconnects.
func (d *Dialer) Probe(ctx context.Context, addr string) (Hello, error) {
	nc, _, doc, err := d.connect(ctx, addr)
	if err != nil {
		return Hello{}, err
	}
	nc.Close()
	return parseHello(doc), nil
}

// Conn opens a connection for mgo. Below wire version 6 (MongoDB 3.6) it is
// not translated.
func (d *Dialer) Conn(ctx context.Context, addr string) (net.Conn, error) {
	nc, br, doc, err := d.connect(ctx, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastErr = err
	if err != nil {
		return nil, err
	}
	if d.closed {
		nc.Close()
		return nil, net.ErrClosed
	}
	if d.live == nil {
		d.live = map[net.Conn]bool{}
	}
	d.live[nc] = true
	d.keepHello(addr, doc)
	if parseHello(doc).MaxWireVersion < oldestMsg {
		return &rawConn{Conn: nc, d: d, br: br}, nil
	}
	return newConn(d, addr, nc, br), nil
}

// LastError returns why the latest attempt to connect failed, or nil if it did
// not.
func (d *Dialer) LastError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastErr
}

// Close ends all connections and refuses new ones. Requests under way fail.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.closed = true
	live := d.live
	d.live = nil
	d.mu.Unlock()
	for nc := range live {
		nc.Close()
	}
	return nil
}

// connect opens a connection and shakes hands; doc is the server's answer.
func (d *Dialer) connect(ctx context.Context, addr string) (net.Conn, *bufio.Reader, bson.Raw, error) {
	timeout := d.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	nc, err := d.open(ctx, addr)
	if err != nil {
		return nil, nil, nil, errors.Annotatef(err, "cannot connect to %s", addr)
	}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	br := bufio.NewReaderSize(nc, 16<<10)
	doc, err := d.handshake(nc, br)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, nil, nil, errors.Annotatef(err, "cannot shake hands with %s", addr)
	}
	return nc, br, doc, nil
}

// open opens the connection, with TLS if wanted.
func (d *Dialer) open(ctx context.Context, addr string) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	nc, err := dial(ctx, addr)
	if err != nil || d.TLS == nil {
		return nc, err
	}
	config := d.TLS.Clone()
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			nc.Close()
			return nil, errors.Trace(err)
		}
	}
	secure := tls.Client(nc, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secure, nil
}

// handshake sends isMaster with client metadata as OP_QUERY: the one form that
// servers of every version take. It offers no compression.
func (d *Dialer) handshake(nc net.Conn, br *bufio.Reader) (bson.Raw, error) {
	name := d.AppName
	if name == "" {
		name = "slipway"
	}
	client := bson.Build().
		Doc("application", bson.Build().Str("name", name).End()).
		Doc("driver", bson.Build().Str("name", "mgo|slipway").Str("version", "2").End()).
		Doc("os", bson.Build().Str("type", "linux").End())
	hello := bson.Build().Int32("isMaster", 1).Doc("client", client.End()).End()
	buf := AppendQuery(nil, 1, Query{Flags: querySlaveOk, Namespace: "admin.$cmd", Limit: -1, Query: hello})
	if _, err := nc.Write(buf); err != nil {
		return nil, err
	}
	m, err := ReadMessage(br)
	if err != nil {
		return nil, errors.Annotate(err, "the server gave no answer (does it require TLS?)")
	}
	if m.Op != OpReply || m.To != 1 {
		return nil, errors.NotValidf("answer with operation %d to request %d", m.Op, m.To)
	}
	doc, err := ParseReply(m.Body)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(); err != nil {
		return nil, err
	}
	if ok, _ := doc.Lookup("ok"); !ok.Truth() {
		text, _ := doc.Lookup("errmsg")
		s, _ := text.Str()
		return nil, errors.Errorf("the server refused: %q", s)
	}
	return doc, nil
}

func parseHello(doc bson.Raw) Hello {
	var h Hello
	_ = doc.Each(func(e bson.Element) bool {
		switch e.Key {
		case "minWireVersion":
			n, _ := e.Int()
			h.MinWireVersion = int(n)
		case "maxWireVersion":
			n, _ := e.Int()
			h.MaxWireVersion = int(n)
		case "setName":
			h.SetName, _ = e.Str()
		case "isreplicaset":
			h.Uninitiated = e.Truth()
		case "ismaster", "isWritablePrimary":
			h.Primary = e.Truth()
		case "secondary":
			h.Secondary = e.Truth()
		case "msg":
			s, _ := e.Str()
			h.Router = s == "isdbgrid"
		}
		return true
	})
	return h
}

// keepHello remembers what addr said of itself. The caller holds d.mu.
func (d *Dialer) keepHello(addr string, doc bson.Raw) {
	if d.hellos == nil {
		d.hellos = map[string]helloEntry{}
	}
	d.hellos[addr] = helloEntry{doc, time.Now()}
}

// hello returns what addr said of itself a moment ago, or nil.
func (d *Dialer) hello(addr string) bson.Raw {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.hellos[addr]; ok && time.Since(e.at) < helloFresh {
		return e.doc
	}
	return nil
}

// forget drops what is known of addr.
func (d *Dialer) forget(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hellos, addr)
}

// gone notes that a connection has ended.
func (d *Dialer) gone(nc net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, nc)
}

// cursorOpen remembers the namespace of an open cursor.
func (d *Dialer) cursorOpen(k cursorKey, ns string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cursors == nil {
		d.cursors = map[cursorKey]string{}
	}
	d.cursors[k] = ns
}

// cursorClosed forgets a cursor and returns its namespace, "" if unknown.
func (d *Dialer) cursorClosed(k cursorKey) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ns := d.cursors[k]
	delete(d.cursors, k)
	return ns
}

// rawConn is a connection to an old server, with what was read ahead.
type rawConn struct {
	net.Conn
	d  *Dialer
	br *bufio.Reader
}

func (c *rawConn) Read(p []byte) (int, error) { return c.br.Read(p) }

func (c *rawConn) Close() error {
	c.d.gone(c.Conn)
	return c.Conn.Close()
}
