// Package binaries names versions of the agent: a number, such as "2.0-beta9",
// and a number together with the series and architecture that a package of it
// is built for, such as "2.0.0-xenial-amd64".
package binaries

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"

	"github.com/juju/errors"
)

// Number is a version. A Number with a Tag comes before the one without it.
// The zero Number prints as "0.0.0" and means that no version is known.
type Number struct {
	Major, Minor int
	Tag          string // "beta", "rc" and so on; empty for a release
	Patch        int    // with a tag, the number right after it
	Build        int    // 0 means none
}

// Version is a package of the agent.
type Version struct {
	Number
	Series string
	Arch   string
}

// digits keeps numbers well inside an int.
const digits = `(\d{1,9})`

// word is a series or an architecture. Versions are names of files, so it is no path.
const word = `([A-Za-z0-9][A-Za-z0-9._]{0,63})`

var (
	number  = regexp.MustCompile(`^` + digits + `\.` + digits + `(?:\.|-([a-z]+))` + digits + `(?:\.` + digits + `)?$`)
	version = regexp.MustCompile(`^(\d.*)-` + word + `-` + word + `$`)
)

// ParseNumber reads major.minor.patch[.build] or major.minor-tagN[.build]. It
// returns an error satisfying errors.NotValid for anything else.
func ParseNumber(text string) (Number, error) {
	m := number.FindStringSubmatch(text)
	if m == nil {
		return Number{}, errors.NotValidf("version %q", text)
	}
	return Number{Major: atoi(m[1]), Minor: atoi(m[2]), Tag: m[3], Patch: atoi(m[4]), Build: atoi(m[5])}, nil
}

// atoi is for text that the expression has let through: at most nine digits,
// or nothing.
func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Parse reads number-series-arch. It returns an error satisfying
// errors.NotValid for anything else.
func Parse(text string) (Version, error) {
	m := version.FindStringSubmatch(text)
	if m == nil {
		return Version{}, errors.NotValidf("binary version %q", text)
	}
	n, err := ParseNumber(m[1])
	if err != nil {
		return Version{}, errors.NotValidf("binary version %q", text)
	}
	return Version{Number: n, Series: m[2], Arch: m[3]}, nil
}

// IsZero reports whether n is the zero Number.
func (n Number) IsZero() bool { return n == Number{} }

// String prints n so that ParseNumber reads it back.
func (n Number) String() string {
	text := fmt.Sprintf("%d.%d.%d", n.Major, n.Minor, n.Patch)
	if n.Tag != "" {
		text = fmt.Sprintf("%d.%d-%s%d", n.Major, n.Minor, n.Tag, n.Patch)
	}
	if n.Build > 0 {
		text += "." + strconv.Itoa(n.Build)
	}
	return text
}

// Compare returns a negative number if n is older than o, zero if they are
// equal, and a positive number if n is newer.
func (n Number) Compare(o Number) int {
	released := func(n Number) int {
		if n.Tag == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(n.Major, o.Major),
		cmp.Compare(n.Minor, o.Minor),
		cmp.Compare(released(n), released(o)),
		cmp.Compare(n.Tag, o.Tag),
		cmp.Compare(n.Patch, o.Patch),
		cmp.Compare(n.Build, o.Build),
	)
}

// MarshalText writes n as String does, so that JSON holds it as a string.
func (n Number) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what MarshalText writes; empty text is the zero Number.
func (n *Number) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*n = Number{}
		return nil
	}
	parsed, err := ParseNumber(string(text))
	if err != nil {
		return err
	}
	*n = parsed
	return nil
}

// String prints v so that Parse reads it back.
func (v Version) String() string { return v.Number.String() + "-" + v.Series + "-" + v.Arch }

// MarshalText writes v as String does.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText writes; empty text is the zero Version.
func (v *Version) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*v = Version{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}
