// Package ha runs a site of several controllers as real processes on a double
// of a MongoDB replica set: restarts one after the other under load, and a
// controller that is killed. The tests need the tag e2e.
package ha
