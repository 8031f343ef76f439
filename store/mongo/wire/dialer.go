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
	// silence is for how long a server may owe an answer before it is looked at:
	// more than a change stream waits.
	silence = 2 * time.Second
	// lookTimeout bounds that look.
	lookTimeout = 3 * time.Second
	// shunned is for how long no connection is tried to a server that did not answer:
	// while the driver waits for one, it sees no other server become primary.
	shunned = 2 * time.Second
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
	live    map[net.Conn]string  // the address of each connection
	looks   map[string]func()    // cancels the look at a server, by its address
	looking sync.WaitGroup       // for all looks
	silent  map[string]time.Time // since when servers are, that did not answer the last time
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

// errSilent says that a server did not answer a moment ago.
const errSilent = errors.ConstError("the server is silent")

// Conn opens a connection for mgo. Below wire version 6 (MongoDB 3.6) it is
// not translated. It fails at once for a server that was silent a moment ago.
func (d *Dialer) Conn(ctx context.Context, addr string) (net.Conn, error) {
	if d.shuns(addr) {
		return nil, errors.Annotatef(errSilent, "cannot connect to %s", addr)
	}
	nc, br, doc, err := d.connect(ctx, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastErr = err
	if err != nil {
		d.shun(addr, err)
		return nil, err
	}
	if d.closed {
		nc.Close()
		return nil, net.ErrClosed
	}
	if d.live == nil {
		d.live = map[net.Conn]string{}
	}
	d.live[nc] = addr
	d.keepHello(addr, doc)
	if parseHello(doc).MaxWireVersion < oldestMsg {
		return &rawConn{Conn: nc, d: d, br: br}, nil
	}
	return newConn(d, addr, nc, br), nil
}

// shun has no connection tried to a server for a while, if err says that it did not
// answer in time. The caller holds d.mu.
func (d *Dialer) shun(addr string, err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if d.silent == nil {
		d.silent = map[string]time.Time{}
	}
	d.silent[addr] = time.Now()
}

func (d *Dialer) shuns(addr string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.silent[addr]
	if ok && time.Since(since) >= shunned {
		delete(d.silent, addr)
		ok = false
	}
	return ok
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
	for _, cancel := range d.looks {
		cancel()
	}
	d.mu.Unlock()
	for nc := range live {
		nc.Close()
	}
	d.looking.Wait()
	return nil
}

// suspect looks at a server that owes somebody an answer. If it does not even
// shake hands, all connections to it are ended: who waits then asks another
// server, where he would have waited for as long as his deadline allows. A server
// that is only slow is left alone.
func (d *Dialer) suspect(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.looks[addr] != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	if d.looks == nil {
		d.looks = map[string]func(){}
	}
	d.looks[addr] = cancel
	d.looking.Go(func() {
		defer cancel()
		_, err := d.Probe(ctx, addr)
		d.mu.Lock()
		delete(d.looks, addr)
		d.shun(addr, err)
		var dead []net.Conn
		for nc, its := range d.live {
			if err != nil && its == addr {
				dead = append(dead, nc)
			}
		}
		d.mu.Unlock()
		if len(dead) > 0 {
			logger.Warningf("%s does not answer, giving up %d connections to it: %v", addr, len(dead), err)
		}
		for _, nc := range dead {
			nc.Close()
		}
	})
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
	if !stop() {
		err = ctx.Err() // whatever came of the connection then
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

// forget drops what servers said of themselves: when a connection has ended, or a
// primary is none any more, what the others said is out of date as well.
func (d *Dialer) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.hellos)
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
