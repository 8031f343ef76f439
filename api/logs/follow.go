// Package logs reads the logs of models, and sends those of agents.
package logs

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
)

// Record is a message of an agent, or of the controller itself.
type Record struct {
	Entity   string    `json:"tag"` // who wrote it
	Time     time.Time `json:"ts"`
	Level    string    `json:"sev"` // such as INFO
	Module   string    `json:"mod"`
	Location string    `json:"loc"` // file:line
	Message  string    `json:"msg"`
}

// Query says which records to read. The zero value follows all that come from
// now on.
type Query struct {
	Level         string   // at least; empty means all
	IncludeEntity []string // tags, a star at the end stands for anything; none means all
	ExcludeEntity []string
	IncludeModule []string // with those below them; none means all
	ExcludeModule []string
	Replay        bool // from the first record that is kept
	Backlog       int  // without Replay: so many records that are there already
	NoTail        bool // end when there are no more
	MaxLines      int  // end after so many; 0 means never
}

// values returns the query as it goes over the wire.
func (q Query) values() url.Values {
	v := url.Values{}
	number := func(key string, n int) {
		if n != 0 {
			v.Set(key, strconv.Itoa(n))
		}
	}
	flag := func(key string, b bool) {
		if b {
			v.Set(key, "true")
		}
	}
	if q.Level != "" {
		v.Set("level", q.Level)
	}
	number("backlog", q.Backlog)
	number("maxLines", q.MaxLines)
	flag("replay", q.Replay)
	flag("noTail", q.NoTail)
	for key, list := range map[string][]string{
		"includeEntity": q.IncludeEntity, "excludeEntity": q.ExcludeEntity,
		"includeModule": q.IncludeModule, "excludeModule": q.ExcludeModule,
	} {
		for _, text := range list {
			v.Add(key, text)
		}
	}
	return v
}

// Read calls each with the records of a model's log that a query asks for. It
// returns nil at the query's end, and otherwise why the reading ended: ctx's error,
// each's, or the connection's. Info must name a model.
func Read(ctx context.Context, info api.Info, o api.DialOptions, q Query, each func(Record) error) error {
	s, err := api.OpenStream(ctx, info, o, "log", q.values())
	if err != nil {
		return errors.Trace(err)
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	for {
		var r Record
		switch err := s.Receive(&r); {
		case ctx.Err() != nil:
			return errors.Trace(ctx.Err())
		case err == io.EOF:
			return nil
		case err != nil:
			return errors.Trace(err)
		}
		if err := each(r); err != nil {
			return err
		}
	}
}
