// Package sqlite is the embedded store: one file in a data directory, opened by
// exactly one process.
//
// One goroutine writes. It takes all batches that wait, applies them in one
// transaction and commits once, so that many callers share the cost of making
// their batches durable. A batch is checked as a whole before any of it is
// written, hence one that conflicts leaves nothing and does not disturb its
// neighbours. Reads run in parallel on their own connections and never wait for
// the writer (write-ahead log, synchronous=FULL). Documents that were read or
// written lately are kept in memory, and reads by id answer from there: this
// process is the only one that writes, so it knows when they change.
//
// Every write takes the next number of one sequence, which is both the
// document's revision and the position of its change; changes are written in the
// same transaction as the documents and trimmed in steps. Feeds are woken after
// a commit, they never poll.
package sqlite
