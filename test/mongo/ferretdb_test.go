package mongo_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/FerretDB/FerretDB/ferretdb"
	"github.com/juju/errors"
	"gopkg.in/mgo.v2"
	driverbson "gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/internal/testport"
	"github.com/slipway-project/slipway/store"
	slipway "github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// ferret starts FerretDB, in this process, and returns its address. It keeps
// its data in a temporary folder: with mode=memory it hangs.
func ferret(t *testing.T) string {
	t.Helper()
	addr := testport.Free(t, 1)[0] // FerretDB wants to listen itself
	f, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: addr},
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		Handler:   "sqlite",
		SQLiteURL: "file:" + t.TempDir() + "/",
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return addr
}

// TestTranslationOnFerretDB runs mgo's own calls against a server that speaks
// OP_MSG alone and was not written by us.
func TestTranslationOnFerretDB(t *testing.T) {
	addr := ferret(t)
	var lock sync.Mutex // its updates are not atomic
	d := &wire.Dialer{WriteLock: &lock}
	defer d.Close()
	session, err := mgo.DialWithInfo(&mgo.DialInfo{Addrs: []string{addr}, DialServer: func(a *mgo.ServerAddr) (net.Conn, error) {
		return d.Conn(context.Background(), a.String())
	}})
	check(t, err)
	defer session.Close()
	c := session.DB("test").C("things")
	for i := range 250 {
		check(t, c.Insert(driverbson.M{"_id": fmt.Sprintf("%03d", i), "n": i, "odd": i%2 == 1}))
	}
	if err := c.Insert(driverbson.M{"_id": "000"}); !mgo.IsDup(err) {
		t.Errorf("Insert of a duplicate = %v", err)
	}
	check(t, c.EnsureIndex(mgo.Index{Key: []string{"n"}, Unique: true, DropDups: true, Background: true}))
	if err := c.Insert(driverbson.M{"_id": "x", "n": 7}); !mgo.IsDup(err) {
		t.Errorf("Insert against a unique index = %v", err)
	}
	var all []struct {
		ID string `bson:"_id"`
		N  int
	}
	check(t, c.Find(driverbson.M{"n": driverbson.M{"$gte": 50}}).Sort("-n").Batch(20).All(&all))
	if len(all) != 200 || all[0].N != 249 || all[199].N != 50 {
		t.Errorf("All = %d documents", len(all))
	}
	iter := c.Find(nil).Batch(5).Iter()
	var one driverbson.M
	if !iter.Next(&one) {
		t.Errorf("Next: %v", iter.Err())
	}
	check(t, iter.Close())
	check(t, c.Update(driverbson.M{"_id": "001", "n": 1}, driverbson.M{"$set": driverbson.M{"n": 1001}}))
	if err := c.Update(driverbson.M{"_id": "001", "n": 1}, driverbson.M{"$set": driverbson.M{"n": 1002}}); err != mgo.ErrNotFound {
		t.Errorf("a conditional update that should not match = %v", err)
	}
	_, err = c.UpsertId("new", driverbson.M{"$set": driverbson.M{"n": -1}})
	check(t, err)
	var after driverbson.M
	_, err = c.Find(driverbson.M{"_id": "new"}).Apply(mgo.Change{Update: driverbson.M{"$inc": driverbson.M{"n": -4}}, ReturnNew: true}, &after)
	if err != nil || after["n"] != -5 {
		t.Errorf("Apply = %v, %v", after, err)
	}
	info, err := c.RemoveAll(driverbson.M{"odd": true})
	if err != nil || info.Removed != 125 {
		t.Errorf("RemoveAll = %+v, %v", info, err)
	}
	if n, err := c.Count(); err != nil || n != 126 {
		t.Errorf("Count = %d, %v, want 126", n, err)
	}
	if err := session.DB("test").Run("noSuchCommand", nil); err == nil {
		t.Error("an unknown command was taken")
	}
	check(t, session.DB("test").DropDatabase())
}

// member makes FerretDB say that it is a member of a replica set, which the
// store insists on. It rewrites the answers to the handshake.
type member struct {
	net.Conn
	rest []byte
}

func (m *member) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		msg, err := wire.ReadMessage(m.Conn)
		if err != nil {
			return 0, err
		}
		m.rest = m.rewritten(msg)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

func (m *member) rewritten(msg wire.Message) []byte {
	add := func(doc bson.Raw) bson.Raw {
		if _, ok := doc.Lookup("maxWireVersion"); !ok {
			return doc
		}
		return bson.Extend(doc).Str("setName", "rs0").End()
	}
	if msg.Op == wire.OpReply {
		doc, err := wire.ParseReply(msg.Body)
		if err == nil {
			return wire.AppendReply(nil, msg.To, 8, 0, add(doc))
		}
	}
	content, err := wire.ParseMsg(msg.Body)
	if err != nil {
		return nil
	}
	content.Body = add(content.Body)
	return wire.AppendMsg(nil, msg.ID, msg.To, content)
}

// TestOneDocumentBatchesOnFerretDB runs what of the store needs neither
// transactions nor change streams.
func TestOneDocumentBatchesOnFerretDB(t *testing.T) {
	addr := ferret(t)
	var lock sync.Mutex
	s, err := slipway.Open(deadline(t), slipway.Config{
		URL:         "mongodb://" + addr + "/slipway?replicaSet=rs0",
		Collections: []store.Collection{{Name: "machines", Indexes: []string{"model"}}},
		Lock:        &lock,
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return &member{Conn: nc}, err
		},
	})
	check(t, err)
	defer s.Close()
	ctx := deadline(t)
	key := store.Key{Collection: "machines", ID: "m:1"}
	one := func(op store.Op) error { return s.Apply(ctx, []store.Op{op}) }
	rev := func() store.Rev {
		t.Helper()
		docs, err := s.GetAll(ctx, []store.Key{key})
		check(t, err)
		return docs[0].Rev
	}
	check(t, one(store.Insert(key, []byte(`{"n":1}`), map[string]string{"model": "m"})))
	first := rev()
	if err := one(store.Insert(key, nil, nil)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second insertion = %v, want a conflict", err)
	}
	check(t, one(store.Replace(key, first, []byte(`{"n":2}`), map[string]string{"model": "n"})))
	if err := one(store.Replace(key, first, nil, nil)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a replacement at an old revision = %v, want a conflict", err)
	}
	doc, err := s.Get(ctx, key)
	if err != nil || string(doc.Data) != `{"n":2}` || doc.Rev <= first {
		t.Errorf("Get = %+v, %v", doc, err)
	}
	page, err := s.List(ctx, store.Query{Collection: "machines", Index: "model", Value: "n", Prefix: "m:"})
	if err != nil || len(page.Docs) != 1 {
		t.Errorf("List = %+v, %v, want one document", page, err)
	}
	check(t, one(store.Assert(key, doc.Rev)))
	check(t, one(store.Remove(key, doc.Rev)))
	if _, err := s.Get(ctx, key); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get after the removal = %v", err)
	}
	check(t, one(store.AssertMissing(key)))
	check(t, one(store.Insert(key, []byte(`{"n":3}`), nil)))
	if again := rev(); again <= doc.Rev+1 {
		t.Errorf("the revision after removal and insertion is %d, want more than %d", again, doc.Rev+1)
	}

	// Compare and set, by many at once.
	check(t, one(store.Replace(key, rev(), []byte("0"), nil)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for done := 0; done < 5; {
				doc, err := s.Get(ctx, key)
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				fmt.Sscan(string(doc.Data), &n)
				if err := one(store.Replace(key, doc.Rev, fmt.Append(nil, n+1), nil)); err == nil {
					done++
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if doc, err := s.Get(ctx, key); err != nil || string(doc.Data) != "40" {
		t.Errorf("after 40 increments: %s, %v", doc.Data, err)
	}
}
