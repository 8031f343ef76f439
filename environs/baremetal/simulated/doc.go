// Package simulated is a bare-metal back end without metal: a rack of machines
// that exist in memory only, but for what is on their disks, which a folder may keep. It serves to try things out, to develop, and to
// test whatever stands above a back end.
//
// A machine comes into being when it is first spoken to. What it is made of, and
// what goes wrong with it, follows from the rack's seed and the machine's BMC
// address alone: so the end of a run can be told beforehand (see Rack.Fault).
//
// An image whose URL has a host name below ".invalid", which RFC 2606 promises
// not to exist, cannot be fetched, and provisioning it fails.
package simulated
