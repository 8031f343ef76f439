// Package doccheck holds the test that keeps the documents true: links lead
// somewhere, make targets exist, and the commands that they show are commands
// that the programs accept.
package doccheck
