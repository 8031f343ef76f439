package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
		dir := t.TempDir()
		return storetest.Subject{Open: func(t *testing.T, o storetest.Options) store.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Collections: o.Collections, History: o.History})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
