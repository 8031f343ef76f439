// Package disk finds, divides, wipes, checks and mounts disks.
//
// A [Manager] reaches the machine through four seams and nothing else: the roots
// of sysfs, procfs and /dev, a [Commander] for programs, and [Devices] for the
// bytes of block devices. None has a default: a Manager that is made without one
// is refused, so a test can never reach the disks of the machine it runs on by
// forgetting something. [HostConfig] gives the real ones.
//
// Partition tables are read and written here, in Go, and not by tools: what is on
// an old disk or in an image is outside text, and a parser that is bounded and
// fuzzed can meet it in a process that has every right.
package disk
