package params

// Secret is text that must not be printed. It goes over the wire as it is, and
// prints as [redacted].
type Secret string

// String returns [redacted], or nothing if s is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }
