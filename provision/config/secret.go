package config

import (
	"fmt"
	"io"
)

// Redacted is what stands in place of a secret in anything printed.
const Redacted = "[redacted]"

// Secret is text that must not be printed: a token, a password hash, user
// data. Every verb of fmt prints it as "[redacted]", or as nothing when it is empty;
// only a conversion to string and the JSON encoding, which is the wire, give the
// text itself.
type Secret string

// String returns "[redacted]", or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format makes all verbs, also %x and %q, print the redacted form.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}
