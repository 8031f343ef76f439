// Package bmcqemu proves that a fake BMC can drive a real virtual machine, and that
// the Redfish back end's steps have their effect on one: virtual CD, one-time boot,
// restart, power. Its test is built with the tag e2e and needs the packages that
// test/e2e.sh names.
package bmcqemu
