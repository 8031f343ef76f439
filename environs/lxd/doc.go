// Package lxd provides machines that are LXD system containers, on one LXD
// daemon or several.
//
// Each daemon is an availability zone. A machine's container is named after its
// model and machine, so that no daemon can hold two of it, and carries the marks
// of package environs as user.* keys from the moment it is made. Containers
// without our marks are never touched, whatever their names.
//
// # The way of a start
//
// A container is made from an image that the daemon has (or fetches), it is
// started, and the machine's agent file and, if there is one, a static agent are
// written to its disk; an image with neither cloud-init nor the agent has them
// written before it is started, along with the agent's service. Nothing secret
// goes into LXD's configuration, which every process of the container could
// read. A start that fails removes what it made; one that is cut off leaves
// a container with our marks, which is listed, and which the same start finishes.
//
// # The way to the API
//
// A container needs no network for its agent: LXD carries each of the API's
// addresses to a loopback port of the container (a proxy device). With the
// setting lxd-bridge the container's own network is used instead, and
// a controller has to listen there.
package lxd
