// Package containers provisions the containers on one machine: the part of the
// machine's agent that makes it a host.
//
// The controller is told which types of container the machine can hold. When the
// first container is asked for, the machine's LXD server is set up, if nobody has
// done so, and a provisioner of package worker/provisioner is started that
// differs from a model's in three things: it watches the containers of this
// machine alone, its broker is this machine's LXD server, and nothing pushes
// retries to it, since operators retry machines only.
//
// A set-up that fails is shown as the status of the containers that wait for it,
// and tried again. Containers that are there from before, after a restart of the
// agent or of the machine, are found by their marks.
package containers
