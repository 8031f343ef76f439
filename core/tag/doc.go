// Package tag names the entities of a site as the API writes them: a kind, a
// hyphen and an id, such as "machine-0-lxd-1" for the machine "0/lxd/1".
//
// Text from outside becomes a tag only through the Parse functions, which
// never panic. A tag that they return prints as the text it came from, but for
// users of the domain "local", who are written without it.
package tag
