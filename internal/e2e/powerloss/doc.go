// Package powerloss takes the power away from a machine that writes to an
// embedded store, and checks what is left: the step beyond internal/e2e/storecrash, where
// the system survives the process.
//
// The machine is a QEMU guest whose first process, the program in folder guest, mounts a
// disk, writes batches, and says on the serial console which ones were
// acknowledged. QEMU is killed at a random moment, and the guest's page cache is lost with it.
//
// The disk is a Disk of the test's process, by NBD, and not a file: what QEMU wrote to
// a file, in whatever cache mode, stays in the page cache of a host that goes on
// living, so a guest that never flushes would lose little. A Disk has a
// volatile cache as real ones have. What the guest flushed is safe; of the rest, an
// arbitrary part of the sectors is lost when the power goes.
package powerloss
