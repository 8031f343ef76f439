package site

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/state"
)

// ownLog puts what this process logs into the log of the controllers' own model.
// Who logs never waits: messages for which there is no room are counted.
type ownLog struct {
	tomb    tomb.Tomb
	logs    *logfile.Store
	model   string // UUID
	entity  string // the controller's tag
	queue   chan logfile.Record
	dropped atomic.Int64
}

var _ loggo.Writer = (*ownLog)(nil)

// openLogs opens the logs of all models.
func (s *Site) openLogs(o Options, c *state.Controller) error {
	logs, err := logfile.Open(logfile.Options{Dir: o.Dir.Logs(), MaxSize: o.LogsSize, MaxAge: o.LogsAge})
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "logs", wait: logs.Close})
	l := &ownLog{
		logs: logs, model: c.ControllerModelUUID(), entity: tag.NewControllerTag(c.ControllerUUID()).String(),
		queue: make(chan logfile.Record, 1024),
	}
	l.tomb.Go(l.loop)
	s.ownLog = l
	s.add(part{name: "own log", kill: func() { l.tomb.Kill(nil) }, wait: l.tomb.Wait})
	return nil
}

// LogWriter returns what puts messages of this process into the log of the
// controllers' own model. It may be used until the site has ended, and is of no
// use thereafter.
func (s *Site) LogWriter() loggo.Writer { return s.ownLog }

// Write implements loggo.Writer. What the logs say of themselves is left out, since
// each failure would be the next message.
func (l *ownLog) Write(e loggo.Entry) {
	if e.Module == logfile.Module {
		return
	}
	r := logfile.Record{
		Entity: l.entity, Time: e.Timestamp, Level: e.Level.String(), Module: e.Module,
		Location: fmt.Sprintf("%s:%d", filepath.Base(e.Filename), e.Line), Message: e.Message,
	}
	select {
	case l.queue <- r:
	default:
		l.dropped.Add(1)
	}
}

// loop writes what comes, until the site ends.
func (l *ownLog) loop() error {
	for {
		select {
		case <-l.tomb.Dying():
			for len(l.queue) > 0 {
				l.keep(<-l.queue)
			}
			return nil
		case r := <-l.queue:
			l.keep(r)
		}
	}
}

// keep writes a record, and tells how many there was no room for. A failure is
// not logged: the standard error has the message too.
func (l *ownLog) keep(r logfile.Record) {
	records := []logfile.Record{r}
	if n := l.dropped.Swap(0); n > 0 {
		records = append(records, logfile.Record{
			Entity: l.entity, Time: time.Now(), Level: loggo.WARNING.String(), Module: logfile.Module,
			Message: fmt.Sprintf("%d messages were dropped here", n),
		})
	}
	_ = l.logs.Append(l.model, records...)
}
