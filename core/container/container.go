// Package container names the kinds of container that a machine can host.
package container

import "github.com/juju/errors"

// Type is a kind of container. The empty Type means that a machine is not in a
// container.
type Type string

// The types of container. None is an answer to "which type?", not a type that
// a machine can have.
const (
	LXD  Type = "lxd"
	KVM  Type = "kvm"
	None Type = "none"
)

// Types returns the types that a container can have.
func Types() []Type { return []Type{LXD, KVM} }

// Parse returns the type that text names. It returns an error satisfying
// errors.NotValid for anything but a type that a container can have.
func Parse(text string) (Type, error) {
	for _, t := range Types() {
		if string(t) == text {
			return t, nil
		}
	}
	return "", errors.WithType(errors.Errorf("invalid container type %q", text), errors.NotValid)
}

// ParseOrNone is Parse, but knows none as well.
func ParseOrNone(text string) (Type, error) {
	if text == string(None) {
		return None, nil
	}
	return Parse(text)
}
