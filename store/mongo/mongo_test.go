package mongo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/juju/loggo"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestMain(m *testing.M) {
	loggo.GetLogger("slipway").SetLogLevel(loggo.ERROR) // each injected fault is a warning
	// The driver's goroutines end by themselves, up to 30 s after the last
	// session is closed.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("gopkg.in/mgo%2ev2.(*mongoServer).pinger"),
		goleak.IgnoreAnyFunction("gopkg.in/mgo%2ev2.(*mongoCluster).syncServersLoop"),
		goleak.IgnoreAnyFunction("gopkg.in/mgo%2ev2.(*mongoCluster).syncServer"))
}

// collections are those that the tests of this package work with.
var collections = []store.Collection{{Name: "machines", Indexes: []string{"model"}}, {Name: "claims"}}

// newDouble starts a double that ends with the test.
func newDouble(t testing.TB, c mongotest.Config) *mongotest.Server {
	t.Helper()
	s, err := mongotest.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// open opens a store that ends with the test.
func open(t testing.TB, c mongo.Config) *mongo.Store {
	t.Helper()
	if c.Collections == nil {
		c.Collections = collections
	}
	s, err := mongo.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	for _, version := range []int{8, 27} {
		t.Run(fmt.Sprintf("wire version %d", version), func(t *testing.T) {
			server := newDouble(t, mongotest.Config{Members: 3, WireVersion: version})
			var n atomic.Int64
			storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
				url := server.URL(fmt.Sprintf("db%d", n.Add(1)))
				return storetest.Subject{
					Open: func(t *testing.T, o storetest.Options) store.Store {
						s, err := mongo.Open(t.Context(), mongo.Config{URL: url, Collections: o.Collections})
						if err != nil {
							t.Fatal(err)
						}
						return s
					},
					LoseHistory: func(*testing.T, store.Store) { server.DropHistory() },
				}
			})
		})
	}
}
