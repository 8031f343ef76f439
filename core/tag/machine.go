package tag

import (
	"cmp"
	"slices"
	"strings"

	"github.com/juju/names/v5"

	"github.com/slipway-project/slipway/core/container"
)

// IsValidMachine reports whether id can name a machine: a number, or for a
// container its host's id, a type and a number, such as "0/lxd/1".
func IsValidMachine(id string) bool { return names.IsValidMachine(id) }

// IsContainer reports whether id names a container.
func IsContainer(id string) bool { return names.IsContainerMachine(id) }

// Parent returns the id of the machine that the container id is in, and "" for
// a machine that is not in another.
func Parent(id string) string {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return ""
	}
	i = strings.LastIndexByte(id[:i], '/')
	if i < 0 {
		return ""
	}
	return id[:i]
}

// TopParent returns the id of the machine that id is in at the end, which is
// id itself if it is not a container.
func TopParent(id string) string {
	top, _, _ := strings.Cut(id, "/")
	return top
}

// ContainerType returns what type of container id is, and "" if it is none.
func ContainerType(id string) container.Type {
	parent := Parent(id)
	if parent == "" {
		return ""
	}
	typ, _, _ := strings.Cut(id[len(parent)+1:], "/")
	return container.Type(typ)
}

// NestingLevel returns in how many machines id is: 0 for a machine that is not
// a container.
func NestingLevel(id string) int { return strings.Count(id, "/") / 2 }

// CompareMachines orders machine ids as they are shown: part by part, numbers
// by value and types by name, hosts before what they contain. It returns a
// negative number if a comes first, zero if they are equal.
func CompareMachines(a, b string) int {
	for {
		x, afterA, moreA := strings.Cut(a, "/")
		y, afterB, moreB := strings.Cut(b, "/")
		if c := comparePart(x, y); c != 0 {
			return c
		}
		switch {
		case moreA && moreB:
			a, b = afterA, afterB
		case moreA:
			return 1
		case moreB:
			return -1
		default:
			return 0
		}
	}
}

// comparePart compares one part of two machine ids.
func comparePart(x, y string) int {
	if isNumber(x) && isNumber(y) {
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		// Compared as text, so that no number is too big.
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	}
	return cmp.Compare(x, y)
}

// SortMachines sorts machine ids in place, in the order of CompareMachines.
func SortMachines(ids []string) { slices.SortFunc(ids, CompareMachines) }

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
