// Package bson holds the little BSON that the wire translation and the test
// double need: reading raw documents without copying, building them, and plain
// Go values for the double.
//
// It is apart from the driver's package on purpose: the double judges what the
// driver sends, so the two must not share a codec. Every reader here checks
// bounds and never panics on foreign bytes. The format is that of
// https://bsonspec.org, version 1.1.
package bson
