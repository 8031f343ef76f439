// Package instance names the things that a provider runs for machines.
package instance

// ID is a provider's name for an instance. The empty ID means none.
type ID string
