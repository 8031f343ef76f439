// Package arch names the processor architectures that machines come in.
package arch

import "slices"

// The known architectures.
const (
	AMD64   = "amd64"
	I386    = "i386"
	ARMHF   = "armhf"
	ARM64   = "arm64"
	PPC64EL = "ppc64el"
	S390X   = "s390x"
)

// All returns every known architecture, in the order in which they are listed
// to people.
func All() []string { return []string{AMD64, I386, ARMHF, ARM64, PPC64EL, S390X} }

// Valid reports whether name is a known architecture.
func Valid(name string) bool { return slices.Contains(All(), name) }
