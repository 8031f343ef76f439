// Package baremetal is the provider whose instances are the site's bare-metal
// hosts.
//
// A host is given to a machine, with the image to write and the data to configure
// it with, in one batch of the controller's state; that is all that StartInstance
// does. The host manager, which may be another process, writes the image, and
// Follow tells how far it has come. So a start takes no worker's time however long
// the hardware takes, and a worker that stops at any moment leaves nothing half
// done: a machine has a host, or it has none.
//
// Stopping an instance takes the host away from its machine. The host manager then
// removes the image, and only after that the host may be given to another.
//
// An instance is called as its host is.
package baremetal
