// Package ironic proves the Ironic back end against a real Ironic, Debian's, with
// its own fake hardware and with Redfish hardware that fake BMCs stand for. Its
// tests are built with the tag e2e and need the packages that test/e2e.sh names.
package ironic
