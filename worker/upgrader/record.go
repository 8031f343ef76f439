package upgrader

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

// phase says how far a change of version is. Its zero value means that none is
// under way.
type phase string

const (
	trying   phase = "trying"   // the new program is run beside the old one
	switched phase = "switched" // it is, or is about to be, the one to start
)

// maxRefused is how many bad versions are kept in mind: old ones go first.
const maxRefused = 20

// record is what is known of upgrades, also after a loss of power.
type record struct {
	Version  string    `json:"version,omitempty"`  // the new one
	Previous string    `json:"previous,omitempty"` // the one to go back to
	Phase    phase     `json:"phase,omitempty"`
	Attempts int       `json:"attempts,omitempty"` // trials of Version that were begun
	Starts   int       `json:"starts,omitempty"`   // of Version, without a login, since the switch
	Refused  []refused `json:"refused,omitempty"`
}

// refused is a version that did not work.
type refused struct {
	Version string    `json:"version"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// readRecord reads a record. One that is not there, or not readable, is empty:
// it is written whole, so that only a broken disk makes it so.
func readRecord(path string) record {
	var r record
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		if !os.IsNotExist(err) {
			logger.Warningf("cannot read what is known of upgrades: %v", err)
		}
		return record{}
	}
	return r
}

func (r record) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(path, append(text, '\n'), 0o644), "cannot note the upgrade")
}

// reason returns why a version is bad; empty if it is not known to be.
func (r record) reason(version string) string {
	for _, bad := range r.Refused {
		if bad.Version == version {
			return bad.Reason
		}
	}
	return ""
}

// refuse notes that a version is bad.
func (r *record) refuse(version, reason string) {
	r.Refused = slices.DeleteFunc(r.Refused, func(b refused) bool { return b.Version == version })
	r.Refused = append(r.Refused, refused{Version: version, Reason: reason, At: time.Now().UTC().Truncate(time.Second)})
	if n := len(r.Refused) - maxRefused; n > 0 {
		r.Refused = r.Refused[n:]
	}
}

// begin notes that a version is about to be tried, and returns how often it has
// been.
func (r *record) begin(version, previous string) int {
	if r.Version != version {
		r.Attempts = 0
	}
	r.Version, r.Previous, r.Phase, r.Starts = version, previous, trying, 0
	r.Attempts++
	return r.Attempts
}

// end notes that no change is under way.
func (r *record) end() {
	*r = record{Refused: r.Refused}
}
