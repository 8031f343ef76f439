// Package floors holds the test that keeps the layout honest: every package
// stands on a floor and imports only packages on lower ones.
package floors
