// Package mongo holds tests of store/mongo against programs that are not ours:
// the double of a replica set against MongoDB's official driver, and the wire
// translation against FerretDB, an independent server. It is a module of its
// own, so that their dependencies stay out of the product's.
package mongo
