package logs

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/worker"
)

// The limits of a Writer.
const (
	room      = 4096                   // messages that wait to be sent
	batchTime = 200 * time.Millisecond // that messages wait for others
)

// sent is a message as it goes over the wire.
type sent struct {
	Time     time.Time `json:"t"`
	Module   string    `json:"m"`
	Location string    `json:"l"`
	Level    string    `json:"v"`
	Message  string    `json:"x"`
}

// Writer sends what is logged to the controller. Write never waits: messages
// for which there is no room are counted, and the count is sent in their place.
// It logs nothing itself.
type Writer struct {
	mu      sync.Mutex
	pending []sent
	dropped int
	wake    chan struct{} // holds a value when something is pending
}

var _ loggo.Writer = (*Writer)(nil)

// NewWriter returns a writer that keeps what is written until Run sends it.
func NewWriter() *Writer { return &Writer{wake: make(chan struct{}, 1)} }

// Write implements loggo.Writer. What the connection below says of itself is left
// out: sending it would be the next message.
func (w *Writer) Write(e loggo.Entry) {
	if e.Module == "slipway.rpc" && e.Level < loggo.WARNING {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) >= room {
		w.dropped++
		return
	}
	w.pending = append(w.pending, sent{
		Time: e.Timestamp, Module: e.Module, Location: fmt.Sprintf("%s:%d", filepath.Base(e.Filename), e.Line),
		Level: e.Level.String(), Message: strings.ToValidUTF8(e.Message, "\uFFFD"),
	})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns what waits to be sent.
func (w *Writer) take() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.pending
	w.pending = nil
	if w.dropped > 0 {
		batch = append(batch, sent{
			Time: time.Now(), Module: "slipway.api.logs", Level: loggo.WARNING.String(),
			Message: fmt.Sprintf("%d messages were dropped here: the controller did not take them in time", w.dropped),
		})
		w.dropped = 0
	}
	return batch
}

// put gives back what could not be sent, before what has come since.
func (w *Writer) put(batch []sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(batch, w.pending...)
	if len(all) > room {
		w.dropped += len(all) - room
		all = all[len(all)-room:] // the newest tell most
	}
	w.pending = all
}

// Run sends what is written as the agent that info names, until ctx is done. It
// connects only when there is something to send, and again, after a pause that
// grows, when the connection breaks. Info is asked anew each time: agents change
// their passwords.
func (w *Writer) Run(ctx context.Context, info func() (api.Info, error), o api.DialOptions, b worker.Backoff) {
	for failures := 0; ctx.Err() == nil; {
		err := w.serve(ctx, info, o, func() { failures = 0 })
		if err == nil || ctx.Err() != nil {
			return
		}
		failures++
		timer := time.NewTimer(b.Delay(failures))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// serve sends over one connection, until that breaks or ctx is done.
func (w *Writer) serve(ctx context.Context, info func() (api.Info, error), o api.DialOptions, healthy func()) error {
	if !w.wait(ctx, nil) {
		return nil
	}
	w.wakeUp() // what woke us is still pending
	who, err := info()
	if err != nil {
		return errors.Trace(err)
	}
	s, err := api.OpenStream(ctx, who, o, "logsink", url.Values{"jujuclientversion": {clientVersion()}})
	if err != nil {
		return errors.Trace(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.Drain() // answers pings, and notices the end
	}()
	defer func() {
		_ = s.Close() // releases the drain
		<-gone
	}()
	healthy()
	for w.wait(ctx, gone) {
		if err := w.flush(s); err != nil {
			return errors.Trace(err)
		}
		pause := time.NewTimer(batchTime)
		select {
		case <-pause.C:
		case <-gone:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	if ctx.Err() != nil {
		_ = w.flush(s) // the last words, if they can be had
		return nil
	}
	return errors.New("connection lost")
}

// flush sends what is pending.
func (w *Writer) flush(s *rpc.Stream) error {
	batch := w.take()
	for i, m := range batch {
		if err := s.Send(m); err != nil {
			w.put(batch[i:])
			return errors.Trace(err)
		}
	}
	return nil
}

func (w *Writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wait returns true when something is pending, and false when there is no more
// use in waiting.
func (w *Writer) wait(ctx context.Context, gone <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-gone:
		return false
	default:
	}
	select {
	case <-ctx.Done():
		return false
	case <-gone:
		return false
	case <-w.wake:
		return true
	}
}

// clientVersion is the version that the server is told.
func clientVersion() string { return buildinfo.Version }
