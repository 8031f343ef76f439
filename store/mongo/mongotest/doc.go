// Package mongotest is a double of a MongoDB replica set, for tests and
// demonstrations on machines without MongoDB.
//
// It listens on loopback and speaks the wire protocol, so that everything
// between the store and a real server is exercised too: the driver, the
// translation, authentication, TLS. It is not MongoDB: it keeps its data in
// memory, knows the commands that the store uses and little more, and refuses
// the rest by name. What it does know it does as MongoDB's manual says:
// snapshot transactions with write conflicts, retryable writes, change streams
// with resume tokens, and, on request, step-downs and lost connections. The
// official driver judges it, in the module below test/mongo.
package mongotest
