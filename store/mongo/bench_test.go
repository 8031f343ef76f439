package mongo_test

import (
	"testing"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/storetest"
)

// These benchmarks run on the double, in memory and in this process: they
// measure driver, translation and store, not MongoDB. No disk is written.

func benchStore(b *testing.B) store.Store {
	b.Helper()
	return open(b, mongo.Config{URL: newDouble(b, mongotest.Config{}).URL("bench")})
}

func BenchmarkApply(b *testing.B) { storetest.BenchApply(b, benchStore) }

func BenchmarkGet(b *testing.B) { storetest.BenchGet(b, benchStore(b)) }

func BenchmarkList(b *testing.B) { storetest.BenchList(b, benchStore(b)) }

// BenchmarkFeed follows the changes through another opening of the store.
func BenchmarkFeed(b *testing.B) {
	config := mongo.Config{URL: newDouble(b, mongotest.Config{}).URL("bench")}
	storetest.BenchFeed(b, open(b, config), open(b, config))
}
