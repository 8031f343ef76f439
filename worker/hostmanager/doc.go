// Package hostmanager looks after bare-metal hosts: it brings each from the state
// it is in towards what its owner wants.
//
// # One pass
//
// A host is worked on in passes. A pass takes the record, makes sure that the back
// end knows the host, and calls the handler of the host's state, which makes at
// most one call that changes something. What came of it is an outcome; how long to
// wait for the next pass follows from that alone, in outcome.go. States, their
// handlers, their time limits and the moves between them are rows of one table, in
// moves.go.
//
// # Many hosts
//
// Every host has a goroutine of its own: a BMC that hangs holds up nobody else. At
// most so many hosts write images at one time; the others wait in a queue, and know
// their place. Every host's record says what it waits for, until when, and when the
// next try is.
//
// # Safety
//
// A host that carries an image is never wiped because of an error: only another
// wish of its owner, or its removal, leads to deprovisioning. Before anything is
// done to a machine an intent is noted in its record, so that whoever takes over
// from this process waits until what it may still have under way has passed. A
// manager that is asked to end takes the intents back for which every call was
// answered.
// Removal ends, whatever the back end does.
package hostmanager
