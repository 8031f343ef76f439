package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/slipway-project/slipway/apiserver"
)

// The events of records.
const (
	eventLogin = "login"
	eventCall  = "call"
	eventLost  = "lost" // records that could not be kept
)

// outcomeOK is the outcome of what succeeded; a failure's is its code.
const outcomeOK = "ok"

// record is a line of the log.
type record struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"`
	Who      string    `json:"who,omitempty"`     // a tag; none if what was given is no tag
	Model    string    `json:"model,omitempty"`   // UUID; none on connections to the site
	From     string    `json:"from,omitempty"`    // an address
	Purpose  string    `json:"purpose,omitempty"` // what the client says it logs in for
	Method   string    `json:"method,omitempty"`  // Facade.Method
	Version  int       `json:"version,omitempty"` // of the facade
	Entities []entity  `json:"entities,omitempty"`
	More     int       `json:"more,omitempty"` // entities that are left out
	Outcome  string    `json:"outcome,omitempty"`
	Took     float64   `json:"took-ms,omitempty"`
	Lost     int       `json:"lost,omitempty"`
}

// entity is something that a call was about.
type entity struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome,omitempty"` // if it is not the call's
}

func loginRecord(l apiserver.Login) record {
	return record{
		Time: l.At.UTC(), Event: eventLogin, Who: l.Who, Model: l.Model, From: l.Remote, Purpose: l.Purpose,
		Outcome: orOK(l.Code), Took: milliseconds(l.Took),
	}
}

func callRecord(c apiserver.Call) record {
	r := record{
		Time: c.At.UTC(), Event: eventCall, Who: c.Who, Model: c.Model, From: c.Remote,
		Method: c.Facade + "." + c.Method, Version: c.Version, More: c.More,
		Outcome: orOK(c.Code), Took: milliseconds(c.Took),
	}
	for _, e := range c.Entities {
		r.Entities = append(r.Entities, entity{Name: e.Name, Outcome: e.Code})
	}
	return r
}

func orOK(code string) string {
	if code == "" {
		return outcomeOK
	}
	return code
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// line returns the record as a line.
func (r record) line() []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // of texts, numbers and a time of this era
	return buf.Bytes()
}
