package statetest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/sqlite"
)

// storeVariable names the store that sites are made on: empty means the
// embedded one, "double" a MongoDB store on a double of a replica set, and
// mongodb://HOST:PORT/?replicaSet=NAME databases of their own on a server, which
// are left behind there.
const storeVariable = "SLIPWAY_TEST_STORE"

// Main runs a package's tests and fails them if goroutines are left. The MongoDB
// driver's own, which end up to half a minute after its last session, do not
// count, nor does net/http's, which gives a client that sent too much half a second
// to read why before its connection is closed: Close does not wait for that.
func Main(m *testing.M) {
	ignored := []goleak.Option{goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")}
	for _, f := range []string{"(*mongoServer).pinger", "(*mongoCluster).syncServersLoop", "(*mongoCluster).syncServer"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction("gopkg.in/mgo%2ev2."+f))
	}
	goleak.VerifyTestMain(m, ignored...)
}

// newStore returns a store that is closed at the end of the test.
func newStore(t testing.TB) store.Store {
	t.Helper()
	s, err := openStore(t)
	if err != nil {
		t.Fatalf("cannot open a store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("cannot close the store: %v", err)
		}
	})
	return s
}

func openStore(t testing.TB) (store.Store, error) {
	choice := os.Getenv(storeVariable)
	switch {
	case choice == "":
		return sqlite.Open(context.Background(), sqlite.Config{Dir: t.TempDir(), Collections: state.Collections()})
	case choice == "double":
		server, err := mongotest.Start(mongotest.Config{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		choice = server.URL("")
	}
	address, query, _ := strings.Cut(choice, "?")
	url := strings.TrimRight(address, "/") + "/slipway-test-" + strings.ToLower(rand.Text()[:8]) + "?" + query
	return mongo.Open(context.Background(), mongo.Config{
		URL:             url,
		Collections:     state.Collections(),
		CredentialsFile: os.Getenv("SLIPWAY_TEST_MONGO_CREDENTIALS"),
	})
}
