// Package common holds what facades are made of.
//
// A mixin is a struct that gives the facade which embeds it one capability and
// its methods, such as LifeGetter and Life. It names what it needs of an entity
// in an interface of its own, and gets entities from an EntityGetter, so that its
// tests need neither state nor store.
//
// The methods of mixins are bulk calls: one result for each argument, in the
// same order, each with an error of its own. For each entity they look at its tag, then
// whether the caller may touch it, and only then whether it exists; so a caller
// never learns of what it may not touch. All entities of a call are found at once.
package common
