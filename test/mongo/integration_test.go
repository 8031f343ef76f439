package mongo_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/slipway-project/slipway/store"
	slipway "github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/mongo/wire"
	"github.com/slipway-project/slipway/store/storetest"
)

// TestStoreOnAServer runs the conformance suite on the server that
// SLIPWAY_TEST_MONGO_URL names, in databases of its own that it drops. Without
// one it runs on the double, so that the suite itself is known to work.
func TestStoreOnAServer(t *testing.T) {
	address := os.Getenv("SLIPWAY_TEST_MONGO_URL")
	if address == "" {
		server, err := mongotest.Start(mongotest.Config{Members: 3})
		check(t, err)
		defer server.Close()
		address = server.URL("")
		t.Log("no SLIPWAY_TEST_MONGO_URL: this runs on the double, not on MongoDB")
	}
	var n atomic.Int64
	storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
		name := fmt.Sprintf("slipway-test-%s-%d", strings.ToLower(rand.Text()[:6]), n.Add(1))
		hosts, rest, _ := strings.Cut(strings.TrimPrefix(address, "mongodb://"), "/")
		_, query, _ := strings.Cut(rest, "?")
		config := slipway.Config{
			URL:             "mongodb://" + hosts + "/" + name + "?" + query,
			CredentialsFile: os.Getenv("SLIPWAY_TEST_MONGO_CREDENTIALS"),
		}
		t.Cleanup(func() { dropDatabase(t, address, name) })
		h := &history{asked: map[*lossy]map[uint32]string{}}
		config.Dial = h.dial
		return storetest.Subject{
			Open: func(t *testing.T, o storetest.Options) store.Store {
				config.Collections = o.Collections
				s, err := slipway.Open(t.Context(), config)
				check(t, err)
				return s
			},
			LoseHistory: func(*testing.T, store.Store) { h.lose() },
		}
	})
}

func dropDatabase(t *testing.T, address, name string) {
	if os.Getenv("SLIPWAY_TEST_MONGO_CREDENTIALS") != "" {
		t.Logf("database %s is left behind", name)
		return
	}
	client, err := mongo.Connect(options.Client().ApplyURI(address))
	check(t, err)
	defer client.Disconnect(context.Background())
	check(t, client.Database(name).Drop(context.Background()))
}

// history stands between the store and a server, and plays the loss of history:
// a real server cannot be told to forget, its log has at least a gigabyte. What
// was opened or read before the loss is then answered as servers do.
type history struct {
	mu    sync.Mutex
	lost  bool
	old   map[int64]bool // streams that were open when history was lost
	open  map[int64]bool
	asked map[*lossy]map[uint32]string
}

func (h *history) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost, h.old, h.open = true, h.open, nil
}

func (h *history) dial(ctx context.Context, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &lossy{Conn: nc, h: h}, nil
}

// lossy is a connection that may answer "history lost" in a server's place.
type lossy struct {
	net.Conn
	h    *history
	rest []byte
}

// Write notes what needs another answer. The translation above writes whole
// messages.
func (l *lossy) Write(p []byte) (int, error) {
	m, err := wire.ReadMessage(strings.NewReader(string(p)))
	if err == nil && m.Op == wire.OpMsg {
		if msg, err := wire.ParseMsg(m.Body); err == nil {
			l.h.note(l, m.ID, msg.Body)
		}
	}
	return l.Conn.Write(p)
}

func (h *history) note(l *lossy, id uint32, cmd bson.Raw) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[l] == nil {
		h.asked[l] = map[uint32]string{}
	}
	first, _ := cmd.First()
	switch first.Key {
	case "aggregate":
		h.asked[l][id] = "open"
		if h.lost && strings.Contains(string(cmd), "resumeAfter") {
			h.asked[l][id] = "lost"
		}
	case "getMore":
		if cursor, _ := first.Int(); h.old[cursor] {
			h.asked[l][id] = "lost"
		}
	}
}

func (l *lossy) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		m, err := wire.ReadMessage(l.Conn)
		if err != nil {
			return 0, err
		}
		if m.Op == wire.OpReply {
			doc, err := wire.ParseReply(m.Body)
			if err != nil {
				return 0, err
			}
			l.rest = wire.AppendReply(nil, m.To, 8, 0, doc)
		} else {
			msg, err := wire.ParseMsg(m.Body)
			if err != nil {
				return 0, err
			}
			msg.Body = l.h.answer(l, m.To, msg.Body)
			l.rest = wire.AppendMsg(nil, m.ID, m.To, msg)
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (h *history) answer(l *lossy, id uint32, doc bson.Raw) bson.Raw {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind := h.asked[l][id]
	delete(h.asked[l], id)
	switch kind {
	case "lost":
		return bson.Build().Double("ok", 0).Str("errmsg", "played by the test").Int32("code", 286).End()
	case "open":
		cursor, _ := doc.Lookup("cursor")
		in, _ := cursor.Doc()
		e, _ := in.Lookup("id")
		if id, ok := e.Int(); ok {
			if h.open == nil {
				h.open = map[int64]bool{}
			}
			h.open[id] = true
		}
	}
	return doc
}
