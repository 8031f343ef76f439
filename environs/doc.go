// Package environs is the contract between provisioners and the providers that
// run instances for machines: a simulated rack, bare metal, containers.
//
// A Provider opens Environs; an Environ is the provider as one model sees it.
// What a container host offers is an InstanceBroker, which is an Environ's
// smaller part.
//
// # Ownership
//
// An instance is marked with its Owner (site, model and machine) and its nonce
// before or in the same step as it is created, never later. So a provisioner
// that lost the answer to StartInstance, or stopped before it could record the
// instance, finds it again with AllInstances, and either records it or stops
// it. Three promises of every broker make that safe:
//
//   - StartInstance with the owner and nonce of an instance that is there
//     returns that instance, and starts nothing;
//   - StartInstance with the owner of an instance that is there and another
//     nonce fails with an error satisfying errors.AlreadyExists, so a machine
//     never has two instances;
//   - AllInstances and StopInstances see nothing of other models and sites.
//
// # Failures
//
// A failed start is worth another try unless its error says otherwise: see
// ClassOf. Every method that may block ends when its context does, and whatever
// it has then already done is cleaned up or found again through its owner.
package environs
