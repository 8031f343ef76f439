// Package state is the model: the controller's models, machines, containers,
// users and settings, kept as documents in a store.
//
// A Controller is what belongs to the whole site; a State is one model of it.
// Both have few methods: the rest is on handles (Models, Users, Machines,
// ModelConfig, Cleanups) and on entities (Machine, Model, User).
//
// # Reading
//
// An entity is a snapshot: its getters answer from the document as it was read,
// and never from the store. Refresh reads it again. A snapshot may be read by many
// goroutines, but not while Refresh runs. What its getters return by pointer or in
// nested maps is shared with other snapshots, and must not be changed.
//
// # Writing
//
// A write reads afresh, checks its rules on what it read, and applies a batch
// that asserts it; when something changed meanwhile it starts over. It does
// not change the snapshot that it was called on. Where a time is recorded and the
// caller gives none, it is the controller's clock.
//
// # Leases
//
// One worker at a time cares for a model: the one that holds its Lease. What a
// manager's connection writes goes through a State WithFence, whose batches assert
// the lease's document, so that nothing of an owner is written once another has
// taken over, however late it comes.
//
// # Documents
//
// What must change together is one document: a machine with its statuses, its
// instance, its addresses and the list of its containers. A document is JSON; it
// is decoded into a struct and encoded anew, so a field that this version does
// not know would be lost. That is why the site's document carries a format number,
// and Open refuses a newer one.
//
// # Watching
//
// One hub a controller follows the store's changes, reads each changed document
// once, and wakes the watchers that it concerns. Watchers have no goroutine
// and never read the store after their start.
package state
