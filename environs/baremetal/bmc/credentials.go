package bmc

import (
	"fmt"
	"strings"

	"github.com/juju/errors"
)

// redacted is what a secret prints as.
const redacted = "[redacted]"

// Credentials are what one logs in to a BMC with. They never print, in whatever
// format, and never turn into JSON.
type Credentials struct {
	Username string
	Password string
}

// Validate returns an error satisfying errors.NotValid if a part is missing.
func (c Credentials) Validate() error {
	switch {
	case c.Username == "" && c.Password == "":
		return errors.NewNotValid(nil, "BMC credentials without username and password")
	case c.Username == "":
		return errors.NewNotValid(nil, "BMC credentials without username")
	case c.Password == "":
		return errors.NewNotValid(nil, "BMC credentials without password")
	}
	return nil
}

// Trimmed returns the credentials without blanks and newlines at either end, as
// files that were made with a text editor have them.
func (c Credentials) Trimmed() Credentials {
	return Credentials{strings.TrimSpace(c.Username), strings.TrimSpace(c.Password)}
}

// Format prints "[redacted]" for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// String returns "[redacted]".
func (c Credentials) String() string { return redacted }

// MarshalJSON returns the string "[redacted]".
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML returns the string "[redacted]".
func (c Credentials) MarshalYAML() (any, error) { return redacted, nil }
