// Package mongo keeps documents in a MongoDB replica set, which any number of
// controllers may share.
//
// It is the only package that imports the driver, gopkg.in/mgo.v2; package
// wire below it makes that driver understand servers of today. MongoDB 4.2 is
// the oldest server that it takes, and the server must be a member of a
// replica set: batches of several documents are transactions, and the feed of
// changes is a change stream.
//
// # What a document looks like
//
// A store's collection is a collection of the database, and a document is
//
//	{_id: "the id", rev: 123, data: BinData(0, ...), ix: ["model=...", ...]}
//
// The body is binary and the index values are strings in one array, so nothing
// that a caller writes becomes a field name. A removal leaves a tombstone,
// {_id, rev, gone: true, at: date}, for change streams to report its revision;
// a sweeper deletes tombstones after ten minutes. Collection "slipway.meta"
// holds one document about the store: its format, its identity, and the
// counters that revisions are made of.
//
// # Revisions
//
// A revision is a counter, the number of this opening of the store, and one
// bit that is set for a removal. The number is unique, so two processes never
// make the same revision; the counter follows what the process reads, so
// revisions of one document grow; and it stays below a mark that is stored
// before it is reached, so that they do after a restart as well.
//
// # Batches
//
// Every operation is an update statement that matches the revision it relies
// on. A batch of one is one conditional update, made retryable by a session.
// A larger one is a transaction with majority read and write concern; what a
// batch only asserts is touched in it, so that a change elsewhere conflicts.
// Lost connections and elections are retried within the caller's deadline by
// the labels of MongoDB's transactions specification.
package mongo
