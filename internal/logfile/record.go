package logfile

import (
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
)

// maxMessage bounds the length of a message, in bytes; the rest is cut off.
const maxMessage = 64 << 10

// Record is a message of an agent, or of the controller itself. Its keys are
// those of the wire, too.
type Record struct {
	Entity   string    `json:"tag"` // who wrote it: a tag
	Time     time.Time `json:"ts"`
	Level    string    `json:"sev"` // such as INFO
	Module   string    `json:"mod"`
	Location string    `json:"loc"` // file:line
	Message  string    `json:"msg"`
}

// trim cuts off what is too long.
func (r Record) trim() Record {
	const short = 200
	r.Module, r.Location = r.Module[:min(len(r.Module), short)], r.Location[:min(len(r.Location), short)]
	if len(r.Message) > maxMessage {
		r.Message = strings.ToValidUTF8(r.Message[:maxMessage], "") + " [cut off]"
	}
	return r
}

// Query says which records to read. The zero value follows all that come from
// now on.
type Query struct {
	Level         loggo.Level // at least; UNSPECIFIED means all
	IncludeEntity []string    // tags, a star at the end stands for anything; none means all
	ExcludeEntity []string
	IncludeModule []string // with those below them; none means all
	ExcludeModule []string
	Replay        bool // from the first record that is kept
	Backlog       int  // without Replay: so many records that are there already
	NoTail        bool // end when there are no more
	MaxLines      int  // end after so many; 0 means never
}

// matches reports whether a record is asked for.
func (q *Query) matches(r *Record) bool {
	if q.Level != loggo.UNSPECIFIED {
		if level, ok := loggo.ParseLevel(r.Level); !ok || level < q.Level {
			return false
		}
	}
	return (len(q.IncludeEntity) == 0 || anyMatches(q.IncludeEntity, r.Entity, matchesEntity)) &&
		!anyMatches(q.ExcludeEntity, r.Entity, matchesEntity) &&
		(len(q.IncludeModule) == 0 || anyMatches(q.IncludeModule, r.Module, isBelow)) &&
		!anyMatches(q.ExcludeModule, r.Module, isBelow)
}

func anyMatches(patterns []string, text string, match func(pattern, text string) bool) bool {
	for _, p := range patterns {
		if match(p, text) {
			return true
		}
	}
	return false
}

func matchesEntity(pattern, tag string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(tag, start)
	}
	return pattern == tag
}

func isBelow(above, module string) bool {
	return module == above || strings.HasPrefix(module, above+".")
}

// errEnough ends a reading that has all it was to have.
const errEnough = errors.ConstError("enough")
