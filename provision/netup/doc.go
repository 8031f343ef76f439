// Package netup brings up the network of a machine that is being installed.
//
// What to do is decided on plain values: a [config.Network] and the ports that there
// are. Doing it goes through [Links], of which [Netlink] is the real one; a test
// records what would be done.
package netup
