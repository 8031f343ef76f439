package wire_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// server is a scripted MongoDB: it answers the handshake as hello says and each
// OP_MSG as handle says.
type server struct {
	t      *testing.T
	addr   string
	hello  bson.Raw
	handle func(m wire.Message, msg wire.Msg) []byte // nil: close the connection

	mu    sync.Mutex
	seen  []wire.Msg
	ids   []uint32
	first []bson.Raw // handshakes
}

func okDoc() bson.Raw { return bson.Build().Double("ok", 1).End() }

func helloDoc(version int32) bson.Raw {
	return bson.Build().Bool("ismaster", true).Int32("minWireVersion", 0).Int32("maxWireVersion", version).
		Str("setName", "rs0").Double("ok", 1).End()
}

// newServer starts a server that ends with the test.
func newServer(t *testing.T, config *tls.Config, hello bson.Raw, handle func(wire.Message, wire.Msg) []byte) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	s := &server{t: t, addr: addr, hello: hello, handle: handle}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
			wg.Go(func() { s.serve(nc) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, nc := range conns {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *server) serve(nc net.Conn) {
	defer nc.Close()
	for {
		m, err := wire.ReadMessage(nc)
		if err != nil {
			return
		}
		var out []byte
		if m.Op == wire.OpQuery {
			q, err := wire.ParseQuery(m.Body)
			if err != nil {
				s.t.Errorf("handshake: %v", err)
				return
			}
			s.mu.Lock()
			s.first = append(s.first, q.Query)
			s.mu.Unlock()
			out = wire.AppendReply(nil, m.ID, 8, 0, s.hello)
		} else {
			msg, err := wire.ParseMsg(m.Body)
			if err != nil {
				s.t.Errorf("request: %v", err)
				return
			}
			s.mu.Lock()
			s.seen, s.ids = append(s.seen, msg), append(s.ids, m.ID)
			s.mu.Unlock()
			out = s.handle(m, msg)
		}
		if out == nil {
			return
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

func (s *server) requests() []wire.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]wire.Msg(nil), s.seen...)
}

// handshakes returns what clients have asked at first, and requestIDs the ids of what they
// have asked since.
func (s *server) handshakes() []bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bson.Raw(nil), s.first...)
}

func (s *server) requestIDs() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint32(nil), s.ids...)
}

// last returns the latest request as values.
func (s *server) last() bson.D {
	s.t.Helper()
	seen := s.requests()
	if len(seen) == 0 {
		s.t.Fatal("the server was asked nothing")
	}
	d, err := bson.Unmarshal(seen[len(seen)-1].Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// always answers each request with doc.
func always(doc bson.Raw) func(wire.Message, wire.Msg) []byte {
	return func(m wire.Message, _ wire.Msg) []byte {
		return wire.AppendMsg(nil, 999, m.ID, wire.Msg{Body: doc})
	}
}

// dial opens a translating connection that ends with the test.
func dial(t *testing.T, d *wire.Dialer, addr string) net.Conn {
	t.Helper()
	nc, err := d.Conn(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return nc
}

// run sends a command the way mgo does and returns the answer.
func run(t *testing.T, nc net.Conn, id uint32, flags uint32, cmd bson.Raw) bson.D {
	t.Helper()
	send(t, nc, wire.AppendQuery(nil, id, wire.Query{Flags: flags, Namespace: "db.$cmd", Limit: -1, Query: cmd}))
	_, docs := receive(t, nc, id)
	if len(docs) != 1 {
		t.Fatalf("answer of %d documents", len(docs))
	}
	return docs[0]
}

func send(t *testing.T, nc net.Conn, b []byte) {
	t.Helper()
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
}

// reply is the fixed part of an OP_REPLY.
type reply struct {
	flags  uint32
	cursor int64
}

// receive reads the OP_REPLY to request id.
func receive(t *testing.T, nc net.Conn, id uint32) (reply, []bson.D) {
	t.Helper()
	m, err := wire.ReadMessage(nc)
	if err != nil {
		t.Fatal(err)
	}
	if m.Op != wire.OpReply || m.To != id || len(m.Body) < 20 {
		t.Fatalf("answer with operation %d to %d, want OP_REPLY to %d", m.Op, m.To, id)
	}
	var docs []bson.D
	for b := m.Body[20:]; len(b) > 0; {
		var doc bson.Raw
		if doc, b, err = bson.Read(b); err != nil {
			t.Fatal(err)
		}
		d, err := bson.Unmarshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	u32 := func(at int) uint32 {
		return uint32(m.Body[at]) | uint32(m.Body[at+1])<<8 | uint32(m.Body[at+2])<<16 | uint32(m.Body[at+3])<<24
	}
	if int(u32(16)) != len(docs) {
		t.Fatalf("OP_REPLY announces %d documents and holds %d", u32(16), len(docs))
	}
	return reply{u32(0), int64(u32(4)) | int64(u32(8))<<32}, docs
}

// ended fails the test unless the connection has been closed.
func ended(t *testing.T, nc net.Conn) {
	t.Helper()
	if _, err := io.ReadFull(nc, make([]byte, 1)); err == nil {
		t.Fatal("read something from a connection that should have ended")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatal("the connection stays open")
	}
}
