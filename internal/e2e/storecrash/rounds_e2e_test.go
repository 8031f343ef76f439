//go:build e2e

package storecrash_test

// defaultRounds is what an end-to-end run does.
const defaultRounds = 40
