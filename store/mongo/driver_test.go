package mongo_test

import (
	"context"
	"net"
	"testing"

	"gopkg.in/mgo.v2"
	driverbson "gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// driver opens a session of the bare driver on a server, for what the store
// does not do itself.
func driver(t testing.TB, server *mongotest.Server) *mgo.Session {
	t.Helper()
	d := &wire.Dialer{}
	s, err := mgo.DialWithInfo(&mgo.DialInfo{Addrs: server.Addrs(), DialServer: func(a *mgo.ServerAddr) (net.Conn, error) {
		return d.Conn(context.Background(), a.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		d.Close()
	})
	return s
}

func dropDatabase(t testing.TB, server *mongotest.Server, name string) {
	t.Helper()
	if err := driver(t, server).DB(name).DropDatabase(); err != nil {
		t.Fatal(err)
	}
}

// documents counts what matches in a collection of database "slipway".
func documents(t testing.TB, server *mongotest.Server, collection string, filter driverbson.M) int {
	t.Helper()
	n, err := driver(t, server).DB("slipway").C(collection).Find(filter).Count()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTheDriverItselfWorks uses the driver's own calls: cursors, legacy kills,
// bulk inserts over the size of one message.
func TestTheDriverItselfWorks(t *testing.T) {
	server := newDouble(t, mongotest.Config{Members: 2})
	c := driver(t, server).DB("slipway").C("things")
	for i := range 300 {
		if err := c.Insert(driverbson.M{"_id": i, "x": i % 7}); err != nil {
			t.Fatal(err)
		}
	}
	var all []struct {
		ID int `bson:"_id"`
	}
	if err := c.Find(nil).Sort("-_id").Batch(50).All(&all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 300 || all[0].ID != 299 {
		t.Errorf("All = %d documents, the first %v", len(all), all[0])
	}
	iter := c.Find(driverbson.M{"x": driverbson.M{"$gt": 2}}).Batch(10).Iter()
	var one driverbson.M
	if !iter.Next(&one) {
		t.Fatal(iter.Err())
	}
	if err := iter.Close(); err != nil { // kills the cursor
		t.Fatal(err)
	}
	if err := c.Insert(driverbson.M{"_id": 5}); !mgo.IsDup(err) {
		t.Errorf("Insert of a duplicate = %v", err)
	}
	if err := c.Update(driverbson.M{"_id": 5}, driverbson.M{"$set": driverbson.M{"x": 100}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(driverbson.M{"_id": -5}, driverbson.M{"$set": driverbson.M{"x": 1}}); err != mgo.ErrNotFound {
		t.Errorf("Update of a missing document = %v", err)
	}
	if info, err := c.RemoveAll(driverbson.M{"x": 100}); err != nil || info.Removed != 1 {
		t.Errorf("RemoveAll = %+v, %v", info, err)
	}
	if err := c.EnsureIndexKey("x"); err != nil {
		t.Fatal(err)
	}
	large := make([]any, 20)
	for i := range large { // 20 MB in one command
		large[i] = driverbson.M{"_id": 1000 + i, "data": make([]byte, 1<<20)}
	}
	if err := c.Insert(large...); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Count(); err != nil || n != 319 {
		t.Errorf("Count = %d, %v, want 319", n, err)
	}
}
