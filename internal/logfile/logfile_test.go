package logfile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/internal/logfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const model = "7a1d0d1c-0000-4000-8000-000000000001"

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T, o logfile.Options) *logfile.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "logs")
	}
	s, err := logfile.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func record(entity, level, module, message string) logfile.Record {
	return logfile.Record{Entity: entity, Time: at, Level: level, Module: module, Location: "x.go:1", Message: message}
}

func add(t *testing.T, s *logfile.Store, records ...logfile.Record) {
	t.Helper()
	if err := s.Append(model, records...); err != nil {
		t.Fatal(err)
	}
}

// read returns the messages that a query that has an end asks for.
func read(t *testing.T, s *logfile.Store, q logfile.Query) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []string
	if err := s.Read(ctx, model, q, func(r logfile.Record) error {
		out = append(out, r.Message)
		return nil
	}); err != nil {
		t.Errorf("Read(%+v) = %v", q, err)
	}
	return strings.Join(out, " ")
}

func TestQueries(t *testing.T) {
	s := open(t, logfile.Options{})
	add(t, s,
		record("machine-0", "INFO", "slipway.worker", "a"),
		record("machine-1", "DEBUG", "slipway.worker.provisioner", "b"),
		record("machine-1", "WARNING", "slipway.workerless", "c"),
		record("machine-10", "ERROR", "unit", "d"),
		record("user-x", "", "", "e"))
	tests := []struct {
		q    logfile.Query
		want string
	}{
		{logfile.Query{Replay: true}, "a b c d e"},
		{logfile.Query{}, ""},
		{logfile.Query{Backlog: 2}, "d e"},
		{logfile.Query{Backlog: 9}, "a b c d e"},
		{logfile.Query{Backlog: 1, IncludeEntity: []string{"machine-1"}}, "c"},
		{logfile.Query{Backlog: 2, Replay: true, MaxLines: 3}, "a b c"},
		{logfile.Query{Replay: true, Level: loggo.INFO}, "a c d"},
		{logfile.Query{Replay: true, IncludeEntity: []string{"machine-1*"}}, "b c d"},
		{logfile.Query{Replay: true, IncludeEntity: []string{"machine-*"}, ExcludeEntity: []string{"machine-1"}}, "a d"},
		{logfile.Query{Replay: true, IncludeModule: []string{"slipway.worker"}}, "a b"},
		{logfile.Query{Replay: true, ExcludeModule: []string{"slipway", "unit"}}, "e"},
	}
	for _, test := range tests {
		test.q.NoTail = true
		if got := read(t, s, test.q); got != test.want {
			t.Errorf("%+v: %q, want %q", test.q, got, test.want)
		}
	}
	if err := s.Read(t.Context(), "other", logfile.Query{NoTail: true, Replay: true}, nil); err != nil {
		t.Errorf("Read of a log that is not there = %v, want nothing", err)
	}
	for _, bad := range []string{"", "..", "a/b"} {
		if err := s.Append(bad, record("x", "INFO", "m", "a")); !errors.Is(err, errors.NotValid) {
			t.Errorf("Append to model %q = %v, want not valid", bad, err)
		}
	}
}

func TestReadFollows(t *testing.T) {
	s := open(t, logfile.Options{MaxSize: 16 * 300}) // some lines a file
	add(t, s, record("machine-0", "INFO", "m", "before"))
	const all = 50
	var wg sync.WaitGroup
	for range 3 {
		started := make(chan struct{})
		var once sync.Once
		wg.Go(func() {
			next := 0
			err := s.Read(t.Context(), model, logfile.Query{Backlog: 1, MaxLines: all + 1}, func(r logfile.Record) error {
				once.Do(func() { close(started) })
				if want := fmt.Sprint(next - 1); next > 0 && r.Message != want {
					return errors.Errorf("record %s, want %s", r.Message, want)
				}
				next++
				return nil
			})
			if err != nil {
				t.Errorf("Read = %v", err)
			}
		})
		<-started
	}
	for i := range all {
		add(t, s, record("machine-0", "INFO", "m", fmt.Sprint(i)))
	}
	wg.Wait()
}

func TestReadersEnd(t *testing.T) {
	s := open(t, logfile.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- s.Read(ctx, model, logfile.Query{}, nil) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Read after its context's end = %v", err)
	}
	go func() { ended <- s.Read(t.Context(), model, logfile.Query{}, nil) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, logfile.ErrClosed) {
		t.Errorf("Read after Close = %v, want ErrClosed", err)
	}
	if err := s.Append(model, record("x", "INFO", "m", "a")); !errors.Is(err, logfile.ErrClosed) {
		t.Errorf("Append after Close = %v, want ErrClosed", err)
	}
}

// size returns how many bytes a model's log has, and in how many files.
func size(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, model))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		bytes += info.Size()
	}
	return bytes, len(entries)
}

func TestLogKeepsItsSize(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	const most = 160_000
	s := open(t, logfile.Options{Dir: dir, MaxSize: most})
	text := strings.Repeat("x", 1000)
	for i := range 1000 {
		add(t, s, record("machine-0", "INFO", "m", fmt.Sprint(text, i)))
		if n, _ := size(t, dir); n > most+most/16 {
			t.Fatalf("the log has %d bytes, want at most %d", n, most)
		}
	}
	if n, files := size(t, dir); n < most/2 || files < 10 {
		t.Errorf("the log has %d bytes in %d files, want most of what is allowed", n, files)
	}
	if got := read(t, s, logfile.Query{Backlog: 1, NoTail: true}); got != text+"999" {
		t.Errorf("the last record is %q", got)
	}
}

func TestOldRecordsGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := open(t, logfile.Options{Dir: dir})
	add(t, s, record("machine-0", "INFO", "m", "old"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, model, "0000000001.log")
	old := time.Now().Add(-71 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	s = open(t, logfile.Options{Dir: dir})
	if got := read(t, s, logfile.Query{Replay: true, NoTail: true}); got != "old" {
		t.Errorf("records of 71 hours ago: %q, want them kept", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old = old.Add(-2 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	s = open(t, logfile.Options{Dir: dir})
	if err := s.Close(); err != nil { // which waits for the first look
		t.Fatal(err)
	}
	if _, files := size(t, dir); files != 0 {
		t.Errorf("%d files of 73 hours ago are kept", files)
	}
}

func TestTornLineIsLeftOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := open(t, logfile.Options{Dir: dir})
	add(t, s, record("machine-0", "INFO", "m", "whole"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, model, "0000000001.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"tag":"machine-0","ts":`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, logfile.Options{Dir: dir})
	if got := read(t, s, logfile.Query{Replay: true, NoTail: true}); got != "whole" {
		t.Errorf("records = %q", got)
	}
	add(t, s, record("machine-0", "INFO", "m", "after"))
	if got := read(t, s, logfile.Query{Replay: true, NoTail: true}); got != "whole after" {
		t.Errorf("records = %q, want the torn line alone left out", got)
	}
}

func TestLongMessagesAreCutOff(t *testing.T) {
	s := open(t, logfile.Options{})
	add(t, s, record("machine-0", "INFO", strings.Repeat("m", 1000), strings.Repeat("é", 100_000)))
	if got := read(t, s, logfile.Query{Replay: true, NoTail: true}); len(got) > 66_000 || !strings.HasSuffix(got, "é [cut off]") {
		t.Errorf("message of %d bytes, ending %q", len(got), got[len(got)-20:])
	}
}
