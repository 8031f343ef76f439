// Package entity is how a search for many entities answers, whichever layer
// asks.
package entity

// Found is the answer for one tag: an entity, or why there is none. When Err is
// not nil, Entity is.
type Found struct {
	Entity any
	Err    error
}
