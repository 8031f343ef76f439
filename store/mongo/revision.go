package mongo

import (
	"context"
	"sync"

	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
)

// A revision is counter<<counterShift | opening<<1 | removal.
const (
	openingBits  = 22 // four million openings of one store
	counterShift = openingBits + 1
	maxOpening   = 1<<openingBits - 1
	// reserve is how many counter values are stored as used in advance: one
	// more round trip for so many writes.
	reserve = 1 << 16
)

// clock makes revisions.
type clock struct {
	opening int64 // of the store, by this process; unique

	mu    sync.Mutex
	last  int64 // counter
	limit int64 // the stored mark; counters must stay below it
}

// observe makes later revisions greater than rev.
func (c *clock) observe(rev store.Rev) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, int64(rev)>>counterShift)
}

// next returns n revisions, each greater than all seen so far. extend raises
// the stored mark and returns it.
func (c *clock) next(n int, extend func() (int64, error)) ([]store.Rev, error) {
	for {
		c.mu.Lock()
		if c.last+int64(n) < c.limit {
			out := make([]store.Rev, n)
			for i := range out {
				c.last++
				out[i] = store.Rev(c.last<<counterShift | c.opening<<1)
			}
			c.mu.Unlock()
			return out, nil
		}
		c.mu.Unlock()
		limit, err := extend() // may be run by several at once: each raises it
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.limit = max(c.limit, limit)
		c.mu.Unlock()
	}
}

// extend raises the stored mark.
func (s *Store) extend(ctx context.Context) (int64, error) {
	var mark int64
	err := s.retry(ctx, func() (bool, error) {
		r, err := exec[meta](ctx, s, s.database, bson.D{
			{Name: "findAndModify", Value: metaCollection},
			{Name: "query", Value: bson.D{{Name: "_id", Value: metaID}}},
			{Name: "update", Value: bson.D{{Name: "$inc", Value: bson.D{{Name: "clock", Value: int64(reserve)}}}}},
			{Name: "new", Value: true},
			{Name: "writeConcern", Value: majority},
		})
		if err != nil {
			return lost(err), err // counting twice does no harm
		}
		mark = r.Value.Clock
		return false, nil
	})
	return mark, err
}
