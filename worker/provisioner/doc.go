// Package provisioner starts and stops the instances of a model's machines.
//
// A Provisioner cares for one model. It hears of machines from a watcher, asks
// what became of them in bulk, and drives each through a small state machine of
// its own, so that no machine's failure holds up another:
//
//   - a machine that is alive, has no instance and is pending is started: an
//     instance that an earlier attempt may have left is stopped first, then it
//     waits in the queue, is started together with others up to a limit, and
//     its instance is recorded;
//   - a start that failed is tried again after a pause that doubles, and its
//     status says why and when; one that cannot succeed, or failed too often,
//     puts the machine in error until somebody asks for a retry;
//   - a dead machine's instance is stopped, whatever carries the machine's mark
//     with it, and its record is removed.
//
// Nothing is stopped before the provider has told, in full, what there is, and
// nothing that does not carry this model's mark is ever stopped. All decisions
// are made by one goroutine, the task's loop; whatever may take time runs
// outside of it and reports back.
//
// The package keeps nothing that it cannot read again from the controller and
// the provider, so it may be killed at any moment.
package provisioner
