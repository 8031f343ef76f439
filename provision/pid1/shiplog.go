package pid1

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/config"
)

const (
	// maxLines is how many lines wait to be shipped; more are counted and dropped, so that
	// a controller that is away never holds up an installation.
	maxLines = 2000
	// shipEvery is how often lines are shipped.
	shipEvery = 2 * time.Second
	// maxBatch is how many lines go in one request.
	maxBatch = 500
)

// Shipper is where log lines go.
type Shipper interface {
	ShipLog(ctx context.Context, lines []string) error
}

// LogWriter is a writer of loggo that shows lines on consoles and keeps them until a
// Shipper takes them. Lines about the shipping itself are shown only.
type LogWriter struct {
	consoles []io.Writer

	mu      sync.Mutex
	lines   []string
	dropped int
}

// NewLogWriter returns a writer to consoles.
func NewLogWriter(consoles ...io.Writer) *LogWriter {
	return &LogWriter{consoles: consoles}
}

// Write implements loggo.Writer. Lines are redacted once more: what commands print
// is not ours.
func (w *LogWriter) Write(e loggo.Entry) {
	line := fmt.Sprintf("%s %s %s %s", e.Timestamp.UTC().Format("15:04:05.000"), e.Level.Short(), strings.TrimPrefix(e.Module, "slipway."), config.Redact(e.Message))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.consoles {
		_, _ = io.WriteString(c, line+"\r\n")
	}
	if e.Module == "slipway.provision.config" {
		return
	}
	if len(w.lines) >= maxLines {
		w.dropped++
		return
	}
	w.lines = append(w.lines, line)
}

// take returns lines to ship.
func (w *LogWriter) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.lines), maxBatch)
	batch := append([]string(nil), w.lines[:n]...)
	w.lines = append([]string(nil), w.lines[n:]...)
	if w.dropped > 0 {
		batch = append(batch, fmt.Sprintf("(%d lines were dropped)", w.dropped))
		w.dropped = 0
	}
	return batch
}

// Ship ships lines until ctx ends, and what is left within five seconds after. Lines that
// cannot be delivered are dropped.
func (w *LogWriter) Ship(ctx context.Context, s Shipper) {
	tick := time.NewTicker(shipEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			for w.send(last, s) {
			}
			return
		case <-tick.C:
			w.send(ctx, s)
		}
	}
}

// send ships one batch and reports whether there may be more.
func (w *LogWriter) send(ctx context.Context, s Shipper) bool {
	batch := w.take()
	if len(batch) == 0 {
		return false
	}
	if err := s.ShipLog(ctx, batch); err != nil {
		w.mu.Lock()
		w.dropped += len(batch)
		w.mu.Unlock()
		return false
	}
	return true
}
