package mongo

// For the tests of what cannot be seen from outside: how text becomes server
// queries, how revisions are made, and what configuration files become.

var (
	After      = after
	IndexEntry = indexEntry
)
