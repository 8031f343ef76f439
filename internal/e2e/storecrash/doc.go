// Package storecrash kills processes that write to an embedded store, and
// checks what is left.
//
// The writers of one process apply batches that touch several documents, and
// say on standard output when they try a batch and when it was acknowledged. The
// process is killed at a random moment. Then the store must contain every
// acknowledged batch, no half of one, and a change feed that tells the same.
//
// A plain "go test" does a few rounds, with the build tag e2e it does more, and
// the environment variable SOAK multiplies a thousand of them.
package storecrash
