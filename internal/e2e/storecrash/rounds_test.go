//go:build !e2e

package storecrash_test

// defaultRounds is few, because every plain test run does them.
const defaultRounds = 5
