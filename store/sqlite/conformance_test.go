package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs with documents kept in memory and without, since
// then every read goes to the file.
func TestConformance(t *testing.T) {
	for name, cache := range map[string]int{"memory": 0, "file": -1} {
		t.Run(name, func(t *testing.T) {
			storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
				dir := t.TempDir()
				return storetest.Subject{Open: func(t *testing.T, o storetest.Options) store.Store {
					s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: o.Collections, History: o.History, CacheBytes: cache})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}}
			})
		})
	}
}
