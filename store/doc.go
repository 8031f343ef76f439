// Package store is the seam between the model and a database: get, list,
// apply, changes and close, and nothing more.
//
// A store keeps documents: opaque bytes under a collection and an id, each at
// a revision. It knows no query language and no update operators. What must
// change together is applied as one batch, all or nothing. Implementations are
// in the folders beside this package; package storetest holds the one suite
// that each of them has to pass.
package store
