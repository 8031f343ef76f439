// Package testlog brings loggo's messages into tests: shown beside the test's
// own output, or captured to be examined.
package testlog

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/juju/loggo"
)

// root is the module above all of ours.
const root = "slipway"

// writers counts writers, so that parallel tests have one each.
var writers atomic.Int64

// Attach shows what is logged at debug level and above until the test ends,
// as lines of t.Log. Tests that run in parallel see one another's messages.
func Attach(t testing.TB) {
	t.Helper()
	capture(t, true)
}

// Log is what has been logged since it was captured.
type Log struct {
	t    testing.TB
	show bool

	mu      sync.Mutex
	ended   bool
	entries []loggo.Entry
	changed chan struct{} // closed and replaced at each message
}

// Capture keeps what is logged at debug level and above until the test ends.
func Capture(t testing.TB) *Log {
	t.Helper()
	return capture(t, false)
}

// capture registers a log as a writer for the length of the test.
func capture(t testing.TB, show bool) *Log {
	t.Helper()
	l := &Log{t: t, show: show, changed: make(chan struct{})}
	logger := loggo.GetLogger(root)
	before := logger.LogLevel()
	logger.SetLogLevel(loggo.DEBUG)
	name := fmt.Sprintf("testlog-%d", writers.Add(1))
	if err := loggo.RegisterWriter(name, l); err != nil {
		t.Fatalf("cannot capture the log: %v", err)
	}
	t.Cleanup(func() {
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		loggo.RemoveWriter(name)
		logger.SetLogLevel(before)
	})
	return l
}

// Write takes one message; loggo calls it.
func (l *Log) Write(e loggo.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return // t.Log would panic now
	}
	l.entries = append(l.entries, e)
	close(l.changed)
	l.changed = make(chan struct{})
	if l.show {
		l.t.Log(line(e))
	}
}

// Entries returns a copy of the messages so far.
func (l *Log) Entries() []loggo.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]loggo.Entry(nil), l.entries...)
}

// String returns the messages so far, one a line, as "LEVEL module file: message".
func (l *Log) String() string {
	var b strings.Builder
	for _, e := range l.Entries() {
		b.WriteString(line(e) + "\n")
	}
	return b.String()
}

// Wait waits until a message contains text, and fails the test when done
// comes first; pass the Done channel of a context with a deadline.
func (l *Log) Wait(done <-chan struct{}, text string) {
	l.t.Helper()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if strings.Contains(l.String(), text) {
			return
		}
		select {
		case <-changed:
		case <-done:
			l.t.Fatalf("nothing logged contains %q; logged:\n%s", text, l)
		}
	}
}

// line formats one message without its time, which would differ between runs.
func line(e loggo.Entry) string {
	return fmt.Sprintf("%s %s %s: %s", e.Level, e.Module, filepath.Base(e.Filename), e.Message)
}
