// Package provisioner is the facade Provisioner, version 3: what a worker calls
// to start and stop the machines of a model, and what a machine's agent calls to
// provision the containers on it.
//
// Callers are agents. One of an ordinary machine may touch that machine and its
// direct containers; one of a machine that manages models may touch every top-level
// machine. Most methods are bulk calls with a result for each machine, in the
// order of the arguments, and decide on each entity by itself.
//
// The methods of ProvisionerAPI take no context; they use that of the connection,
// which its Resources hold.
package provisioner
