// Package ironic is the bare-metal back end that leaves the work to OpenStack
// Ironic, the Bare Metal service: its API is spoken to without Keystone, in plain
// or with HTTP basic authentication.
//
// A host is a node, found again by its ID, its name or its boot MAC address. Every
// call reads the node, and makes at most one move: which one follows from the
// node's provision state alone, so that a restart of ours, or of Ironic, is nothing
// special. A node that is locked (409) is asked again a little later.
//
// The provision states and the targets that are legal in each are those of
// Ironic's state machine:
// https://docs.openstack.org/ironic/latest/user/states.html
package ironic
