// Package faults breaks things while a site of real processes works: it kills
// and pauses the controller, the workers and the rack at chosen moments, has
// calls fail and disks fill up, and looks at the end whether each machine is where
// it should be, with one instance if it lives and none if it does not.
//
// The tests are built with the tag e2e. What is left to chance comes from a seed,
// which is printed and can be given in the environment as SEED. SOAK=n has them do n
// times as much.
package faults
