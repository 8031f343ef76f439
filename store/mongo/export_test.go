package mongo

import (
	"time"

	"gopkg.in/mgo.v2/bson"
)

// For the tests of what cannot be seen from outside: how text becomes server
// queries.

var (
	After      = after
	IndexEntry = indexEntry
)

// SendPing sends a command whether the store is open or not.
func (s *Store) SendPing() error {
	_, err := send[bson.Raw](s, "admin", bson.D{{Name: "ping", Value: 1}}, time.Second)
	return err
}
