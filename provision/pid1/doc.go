// Package pid1 is what the first process of an installer owes its kernel: mounts,
// modules, a watchdog, the dead children of others, a console, and an end.
//
// Everything that touches the machine is a method of [Kernel]. [Linux] is the real
// one, and [Guard] refuses to let it be used by any process but the first of an initramfs.
package pid1
