package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

const slaveOk = 4

func TestWriteNeverBlocks(t *testing.T) {
	hold := make(chan struct{})
	s := newServer(t, nil, helloDoc(21), func(m wire.Message, msg wire.Msg) []byte {
		<-hold
		return always(okDoc())(m, msg)
	})
	nc := dial(t, &wire.Dialer{}, s.addr)
	cmd := bson.Build().Str("insert", "c").Element(bson.TypeBinary, "pad", append([]byte{0, 0, 16, 0, 0}, make([]byte, 1<<20)...)).End()
	const n = 20
	for i := range uint32(n) { // 20 MB, more than any socket buffer holds
		send(t, nc, wire.AppendQuery(nil, 100+i, wire.Query{Namespace: "db.$cmd", Limit: -1, Query: cmd}))
	}
	close(hold)
	for i := range uint32(n) {
		receive(t, nc, 100+i)
	}
}

func TestWriteTakesMessagesInPieces(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	nc := dial(t, &wire.Dialer{}, s.addr)
	b := wire.AppendQuery(nil, 5, wire.Query{Namespace: "db.$cmd", Query: bson.Build().Int32("ping", 1).End()})
	b = append(b, wire.AppendQuery(nil, 6, wire.Query{Namespace: "db.$cmd", Query: bson.Build().Int32("ping", 2).End()})...)
	for i := range b {
		one := b[i : i+1]
		send(t, nc, one)
		b[i] = 0xaa // the caller may reuse its memory
	}
	receive(t, nc, 5)
	receive(t, nc, 6)
}

func TestHandshakeOfEveryWireVersion(t *testing.T) {
	for v := int32(8); v <= 27; v++ {
		s := newServer(t, nil, helloDoc(v), always(okDoc()))
		d := &wire.Dialer{AppName: "slipway-test"}
		h, err := d.Probe(context.Background(), s.addr)
		if err != nil {
			t.Fatalf("wire version %d: %v", v, err)
		}
		if want := (wire.Hello{MaxWireVersion: int(v), SetName: "rs0", Primary: true}); h != want {
			t.Errorf("Probe = %+v, want %+v", h, want)
		}
		// What mgo asks goes on unchanged, so that it sees the version.
		got := run(t, dial(t, d, s.addr), 3, slaveOk, bson.Build().Int32("ismaster", 1).End())
		if n, _ := got.Get("maxWireVersion"); n != v {
			t.Errorf("ismaster says wire version %v, want %d", n, v)
		}
		first, err := bson.Unmarshal(s.handshakes()[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := first.Get("compression"); ok {
			t.Error("the handshake negotiates compression")
		}
		client, _ := first.Get("client")
		if !strings.Contains(fmt.Sprint(client), "slipway-test") {
			t.Errorf("client metadata = %v, want the application's name", client)
		}
	}
}

func TestServersWithoutOpMsgGetTheRawConnection(t *testing.T) {
	s := newServer(t, nil, helloDoc(5), nil)
	nc := dial(t, &wire.Dialer{}, s.addr)
	b := wire.AppendQuery(nil, 77, wire.Query{Namespace: "db.$cmd", Query: bson.Build().Int32("ping", 1).End()})
	send(t, nc, b)
	receive(t, nc, 77)
	if got := s.requests(); len(got) != 0 {
		t.Errorf("an old server got OP_MSG: %v", got)
	}
}

func TestCommandsAreTranslated(t *testing.T) {
	ping := bson.Build().Int32("ping", 1).End()
	secondary := bson.New("mode", "secondaryPreferred")
	wrapped := func(cmd bson.Raw) bson.Raw {
		return bson.Build().Doc("$query", cmd).Doc("$readPreference", bson.Build().Str("mode", "nearest").End()).End()
	}
	for _, c := range []struct {
		name  string
		flags uint32
		cmd   bson.Raw
		want  bson.D
	}{
		{"a command gains $db", 0, ping, bson.New("ping", int32(1), "$db", "db")},
		{"not a read: no preference", slaveOk, ping, bson.New("ping", int32(1), "$db", "db")},
		{"a read on any member", slaveOk, bson.Build().Str("find", "c").End(),
			bson.New("find", "c", "$db", "db", "$readPreference", secondary)},
		{"a write with the slave flag", slaveOk, bson.Build().Str("insert", "c").End(), bson.New("insert", "c", "$db", "db")},
		{"a wrapped command", 0, wrapped(bson.Build().Str("count", "c").End()),
			bson.New("count", "c", "$db", "db", "$readPreference", bson.New("mode", "nearest"))},
		{"a wrapped write", 0, wrapped(bson.Build().Str("delete", "c").End()), bson.New("delete", "c", "$db", "db")},
		{"getLastError in a write concern", 0,
			bson.Build().Str("insert", "c").Doc("writeConcern", bson.Build().Int32("getLastError", 1).Str("w", "majority").End()).End(),
			bson.New("insert", "c", "writeConcern", bson.New("w", "majority"), "$db", "db")},
		{"nothing but getLastError", 0,
			bson.Build().Str("insert", "c").Doc("writeConcern", bson.Build().Int32("getLastError", 1).End()).End(),
			bson.New("insert", "c", "$db", "db")},
		{"old options of an index", 0,
			bson.Build().Str("createIndexes", "c").Docs("indexes", []bson.Raw{
				bson.Build().Str("ns", "db.c").Str("name", "n").Bool("dropDups", true).Bool("unique", true).End()}).End(),
			bson.New("createIndexes", "c", "indexes", bson.A{bson.New("name", "n", "unique", true)}, "$db", "db")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, nil, helloDoc(21), always(bson.Build().Str("from", "server").Double("ok", 1).End()))
			nc := dial(t, &wire.Dialer{}, s.addr)
			got := run(t, nc, 4711, c.flags, c.cmd)
			if want := (bson.New("from", "server", "ok", 1.0)); !reflect.DeepEqual(got, want) {
				t.Errorf("answer = %v, want %v", got, want)
			}
			if sent := s.last(); !reflect.DeepEqual(sent, c.want) {
				t.Errorf("sent %v, want %v", sent, c.want)
			}
		})
	}
}

func TestLegacyFindBecomesTheCommand(t *testing.T) {
	cursor := bson.Build().Doc("cursor", bson.Build().
		Docs("firstBatch", []bson.Raw{bson.Build().Str("_id", "a").End(), bson.Build().Str("_id", "b").End()}).
		Int64("id", 1<<40).Str("ns", "db.c").End()).Double("ok", 1).End()
	s := newServer(t, nil, helloDoc(21), always(cursor))
	nc := dial(t, &wire.Dialer{}, s.addr)
	query := bson.Build().Doc("$query", bson.Build().Str("x", "y").End()).Doc("$orderby", bson.Build().Int32("_id", 1).End()).
		Int32("$maxTimeMS", 7).Doc("$readPreference", bson.Build().Str("mode", "nearest").End()).End()
	send(t, nc, wire.AppendQuery(nil, 9, wire.Query{Flags: 2 | 16 | 32 | 128, Namespace: "db.c.d", Skip: 3, Limit: 50, Query: query,
		Fields: bson.Build().Int32("x", 1).End()}))
	r, docs := receive(t, nc, 9)
	if r.cursor != 1<<40 || len(docs) != 2 {
		t.Errorf("cursor %d with %d documents, want %d with 2", r.cursor, len(docs), int64(1<<40))
	}
	want := bson.New("find", "c.d", "filter", bson.New("x", "y"), "sort", bson.New("_id", int32(1)), "maxTimeMS", int32(7),
		"projection", bson.New("x", int32(1)), "skip", int32(3), "batchSize", int32(50), "tailable", true,
		"noCursorTimeout", true, "awaitData", true, "allowPartialResults", true, "$db", "db",
		"$readPreference", bson.New("mode", "nearest"))
	if sent := s.last(); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
	send(t, nc, wire.AppendQuery(nil, 10, wire.Query{Flags: slaveOk, Namespace: "db.c", Limit: -5, Query: bson.Build().End()}))
	receive(t, nc, 10)
	want = bson.New("find", "c", "filter", bson.D{}, "limit", int32(5), "singleBatch", true, "$db", "db",
		"$readPreference", bson.New("mode", "secondaryPreferred"))
	if sent := s.last(); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// getMore encodes an OP_GET_MORE, killCursors an OP_KILL_CURSORS.
func getMore(id uint32, ns string, limit int32, cursor int64) []byte {
	body := bson.Build().Int64("x", cursor).End() // only for its encoding of numbers
	b := append(make([]byte, 20), ns...)
	b = append(b, 0, byte(limit), 0, 0, 0)
	b = append(b, body[7:15]...)
	return header(b, id, wire.OpGetMore)
}

func killCursors(cursors ...int64) []byte {
	b := append(make([]byte, 20), byte(len(cursors)), 0, 0, 0)
	for _, c := range cursors {
		b = append(b, bson.Build().Int64("x", c).End()[7:15]...)
	}
	return header(b, 0, wire.OpKillCursors)
}

func header(b []byte, id uint32, op int) []byte {
	b[0], b[1], b[4], b[12], b[13] = byte(len(b)), byte(len(b)>>8), byte(id), byte(op), byte(op>>8)
	return b
}

func TestGetMoreAndKillCursors(t *testing.T) {
	const id = 1<<50 + 3
	batch := func(field string) bson.Raw {
		return bson.Build().Doc("cursor", bson.Build().Docs(field, []bson.Raw{okDoc()}).Int64("id", id).Str("ns", "db.c.d").End()).Double("ok", 1).End()
	}
	s := newServer(t, nil, helloDoc(21), func(m wire.Message, msg wire.Msg) []byte {
		first, _ := msg.Body.First()
		switch first.Key {
		case "getMore":
			return always(batch("nextBatch"))(m, msg)
		case "find":
			return always(batch("firstBatch"))(m, msg)
		}
		return always(okDoc())(m, msg)
	})
	d := &wire.Dialer{}
	nc := dial(t, d, s.addr)
	run(t, nc, 1, 0, bson.Build().Str("find", "c.d").End())
	send(t, nc, getMore(2, "db.c.d", 10, id))
	if r, docs := receive(t, nc, 2); r.cursor != id || len(docs) != 1 {
		t.Errorf("getMore: cursor %d with %d documents", r.cursor, len(docs))
	}
	if want := (bson.New("getMore", int64(id), "collection", "c.d", "batchSize", int32(10), "$db", "db")); !reflect.DeepEqual(s.last(), want) {
		t.Errorf("sent %v, want %v", s.last(), want)
	}
	// The operation names no namespace, and comes on another connection.
	other := dial(t, d, s.addr)
	send(t, other, killCursors(12345, id)) // the first is unknown: nothing to send
	run(t, other, 3, 0, bson.Build().Int32("ping", 1).End())
	seen := s.requests()
	killed, err := bson.Unmarshal(seen[len(seen)-2].Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := (bson.New("killCursors", "c.d", "cursors", bson.A{int64(id)}, "$db", "db")); !reflect.DeepEqual(killed, want) {
		t.Errorf("sent %v, want %v", killed, want)
	}
	if len(seen) != 4 {
		t.Errorf("%d requests, want 4", len(seen))
	}
}

func TestALostCursorAndAFailedFind(t *testing.T) {
	failed := func(code int32) bson.Raw {
		return bson.Build().Double("ok", 0).Str("errmsg", "no luck").Int32("code", code).End()
	}
	s := newServer(t, nil, helloDoc(21), func(m wire.Message, msg wire.Msg) []byte {
		code := int32(2)
		if first, _ := msg.Body.First(); first.Key == "getMore" {
			code = 43
		}
		return always(failed(code))(m, msg)
	})
	nc := dial(t, &wire.Dialer{}, s.addr)
	send(t, nc, getMore(1, "db.c", 0, 5))
	if r, docs := receive(t, nc, 1); r.flags != 1 || len(docs) != 0 {
		t.Errorf("flags %d with %d documents, want CursorNotFound alone", r.flags, len(docs))
	}
	send(t, nc, wire.AppendQuery(nil, 2, wire.Query{Namespace: "db.c", Query: bson.Build().End()}))
	r, docs := receive(t, nc, 2)
	if want := (bson.New("$err", "no luck", "code", int32(2))); r.flags != 2 || !reflect.DeepEqual(docs[0], want) {
		t.Errorf("flags %d, %v, want QueryFailure, %v", r.flags, docs, want)
	}
}

func TestGetnonceIsAnsweredHere(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	got := run(t, dial(t, &wire.Dialer{}, s.addr), 1, 0, bson.Build().Int32("getnonce", 1).End())
	if nonce, _ := got.Get("nonce"); nonce == nil {
		t.Errorf("getnonce = %v, want a nonce", got)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("the server was asked %d times, want 0", n)
	}
}

func TestRequestIDsAreOurOwn(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	nc := dial(t, &wire.Dialer{}, s.addr)
	for _, id := range []uint32{900, 7, 900} {
		run(t, nc, id, 0, bson.Build().Int32("ping", 1).End())
	}
	if got, want := s.requestIDs(), []uint32{1, 2, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("request ids %v, want %v", got, want)
	}
	for _, m := range s.requests() {
		if m.MoreToCome {
			t.Error("a request says that more is to come")
		}
	}
}

func TestLargeWritesTravelBesideTheCommand(t *testing.T) {
	var docs []bson.Raw
	for range 20 {
		docs = append(docs, bson.Build().Element(bson.TypeBinary, "d", append([]byte{0, 0, 16, 0, 0}, make([]byte, 1<<20)...)).End())
	}
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	nc := dial(t, &wire.Dialer{}, s.addr)
	run(t, nc, 1, 0, bson.Build().Str("insert", "c").Docs("documents", docs).Bool("ordered", false).End())
	m := s.requests()[0]
	if len(m.Body) > wire.MaxDocument || len(m.Sequences) != 1 || m.Sequences[0].Field != "documents" || len(m.Sequences[0].Docs) != 20 {
		t.Fatalf("body of %d bytes with sequences %d", len(m.Body), len(m.Sequences))
	}
	if !bytes.Equal(m.Sequences[0].Docs[19], docs[19]) {
		t.Error("a document has changed")
	}
	if want := (bson.New("insert", "c", "ordered", false, "$db", "db")); !reflect.DeepEqual(s.last(), want) {
		t.Errorf("sent %v, want %v", s.last(), want)
	}
}

func TestAMessageOverTheLimitIsRefusedAndTheConnectionLives(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	nc := dial(t, &wire.Dialer{}, s.addr)
	var docs []bson.Raw
	for range 4 {
		docs = append(docs, bson.Build().Element(bson.TypeBinary, "d", append([]byte{0, 0, 208, 0, 0}, make([]byte, 13<<20)...)).End())
	}
	got := run(t, nc, 1, 0, bson.Build().Str("insert", "c").Docs("documents", docs).End())
	if code, _ := got.Get("code"); code != int32(10334) {
		t.Errorf("answer = %v, want code 10334", got)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
	run(t, nc, 2, 0, bson.Build().Int32("ping", 1).End())
}

func TestHostileAnswersEndTheConnection(t *testing.T) {
	msg := func(id, to uint32, body []byte) []byte {
		b := wire.AppendMsg(nil, id, to, wire.Msg{Body: okDoc()})[:16]
		b = append(b, body...)
		b[0], b[1], b[2], b[3] = byte(len(b)), byte(len(b)>>8), 0, 0
		return b
	}
	for name, answer := range map[string]func(m wire.Message) []byte{
		"a length of 4 GB":   func(m wire.Message) []byte { return bytes.Repeat([]byte{255}, 32) },
		"a length just over": func(m wire.Message) []byte { return append([]byte{0x01, 0x6c, 0xdc, 0x02}, make([]byte, 28)...) },
		"a length below 16":  func(m wire.Message) []byte { return append([]byte{15, 0, 0, 0}, make([]byte, 28)...) },
		"more to come": func(m wire.Message) []byte {
			return wire.AppendMsg(nil, 1, m.ID, wire.Msg{Body: okDoc(), MoreToCome: true})
		},
		"another request's":    func(m wire.Message) []byte { return wire.AppendMsg(nil, 1, m.ID+1, wire.Msg{Body: okDoc()}) },
		"an OP_REPLY":          func(m wire.Message) []byte { return wire.AppendReply(nil, m.ID, 0, 0, okDoc()) },
		"no section":           func(m wire.Message) []byte { return msg(1, m.ID, []byte{0, 0, 0, 0}) },
		"an unknown flag":      func(m wire.Message) []byte { return msg(1, m.ID, append([]byte{4, 0, 0, 0, 0}, okDoc()...)) },
		"an unknown section":   func(m wire.Message) []byte { return msg(1, m.ID, append([]byte{0, 0, 0, 0, 9}, okDoc()...)) },
		"a document cut short": func(m wire.Message) []byte { return msg(1, m.ID, append([]byte{0, 0, 0, 0, 0}, okDoc()[:9]...)) },
		"a malformed document": func(m wire.Message) []byte {
			return msg(1, m.ID, append([]byte{0, 0, 0, 0, 0}, 7, 0, 0, 0, 0x42, 0, 0))
		},
		"a connection that ends": func(m wire.Message) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil, helloDoc(21), func(m wire.Message, _ wire.Msg) []byte { return answer(m) })
			nc := dial(t, &wire.Dialer{}, s.addr)
			send(t, nc, wire.AppendQuery(nil, 1, wire.Query{Namespace: "db.$cmd", Query: bson.Build().Int32("ping", 1).End()}))
			ended(t, nc)
		})
	}
}

func TestALengthOutOfBoundsFromTheDriverIsRefused(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(okDoc()))
	for _, n := range [][]byte{{0, 0, 0, 0}, {15, 0, 0, 0}, {255, 255, 255, 255}} {
		nc := dial(t, &wire.Dialer{}, s.addr)
		if _, err := nc.Write(append(n, make([]byte, 12)...)); !errors.Is(err, errors.NotValid) {
			t.Errorf("length %v: %v, want not valid", n[:4], err)
		}
	}
}

func TestANotPrimaryAnswerIsPassedOnAndEndsTheConnection(t *testing.T) {
	wce := bson.Build().Double("ok", 1).Doc("writeConcernError", bson.Build().Int32("code", 11602).End()).End()
	we := bson.Build().Double("ok", 1).Docs("writeErrors", []bson.Raw{bson.Build().Int32("index", 0).Int32("code", 189).End()}).End()
	for _, doc := range []bson.Raw{bson.Build().Double("ok", 0).Str("errmsg", "no").Int32("code", 10107).End(), wce, we} {
		s := newServer(t, nil, helloDoc(21), always(doc))
		nc := dial(t, &wire.Dialer{}, s.addr)
		run(t, nc, 1, 0, bson.Build().Str("insert", "c").End())
		ended(t, nc)
		// What was known of the server is forgotten: it is asked afresh.
		next := dial(t, &wire.Dialer{}, s.addr)
		run(t, next, 2, 0, bson.Build().Int32("ismaster", 1).End())
	}
	s := newServer(t, nil, helloDoc(21), always(bson.Build().Double("ok", 0).Str("errmsg", "dup").Int32("code", 11000).End()))
	nc := dial(t, &wire.Dialer{}, s.addr)
	run(t, nc, 1, 0, bson.Build().Str("insert", "c").End())
	run(t, nc, 2, 0, bson.Build().Str("insert", "c").End()) // any other failure does not
}

func TestARepeatedIsmasterIsAnsweredFromMemory(t *testing.T) {
	s := newServer(t, nil, helloDoc(21), always(helloDoc(21)))
	nc := dial(t, &wire.Dialer{}, s.addr)
	deadline := time.Now().Add(time.Minute)
	for i := uint32(1); len(s.requests()) == 0; i++ {
		run(t, nc, i, slaveOk, bson.Build().Int32("ismaster", 1).End())
		if time.Now().After(deadline) {
			t.Fatal("the server is never asked again")
		}
	}
	before := len(s.requests())
	run(t, nc, 1, slaveOk, bson.Build().Int32("ismaster", 1).End())
	if n := len(s.requests()) - before; n > 1 {
		t.Errorf("the server was asked %d times for one question", n)
	}
}

func TestConnectingFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // takes connections and never answers
	hurried, d := &wire.Dialer{Timeout: 50 * time.Millisecond}, &wire.Dialer{Timeout: time.Minute}
	defer hurried.Close()
	if _, err := hurried.Conn(context.Background(), l.Addr().String()); err == nil {
		t.Error("a silent server was taken")
	}
	if hurried.LastError() == nil {
		t.Error("LastError = nil after a failure")
	}
	refusing := newServer(t, nil, bson.Build().Double("ok", 0).Str("errmsg", "unsupported client").End(), nil)
	if _, err := d.Conn(context.Background(), refusing.addr); err == nil || !strings.Contains(err.Error(), "unsupported client") {
		t.Errorf("a refused handshake: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Probe(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	good := newServer(t, nil, helloDoc(21), always(okDoc()))
	nc := dial(t, d, good.addr)
	if d.LastError() != nil {
		t.Errorf("LastError = %v after a success", d.LastError())
	}
	d.Close()
	ended(t, nc)
	if _, err := d.Conn(context.Background(), good.addr); err == nil {
		t.Error("a closed dialer opened a connection")
	}
}

func TestTheWriteLockIsHeldForWritesAlone(t *testing.T) {
	lock := make(chanLock, 1)
	s := newServer(t, nil, helloDoc(21), func(m wire.Message, msg wire.Msg) []byte {
		first, _ := msg.Body.First()
		if held := len(lock) == 1; held != (first.Key == "update") {
			t.Errorf("during %s the lock is held: %v", first.Key, held)
		}
		return always(okDoc())(m, msg)
	})
	nc := dial(t, &wire.Dialer{WriteLock: lock}, s.addr)
	run(t, nc, 1, 0, bson.Build().Str("update", "c").End())
	run(t, nc, 2, 0, bson.Build().Str("find", "c").End())
}

// chanLock is a lock whose state can be looked at.
type chanLock chan struct{}

func (l chanLock) Lock()   { l <- struct{}{} }
func (l chanLock) Unlock() { <-l }
