package mongo

// For the tests of what cannot be seen from outside: how text becomes server
// queries.

var (
	After      = after
	IndexEntry = indexEntry
)
