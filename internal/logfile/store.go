package logfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"
)

var logger = loggo.GetLogger(Module)

// Module is where this package's own messages come from. What keeps messages
// here must leave them out, or each failure would be the next message.
const Module = "slipway.logfile"

// The defaults of Options.
const (
	defaultSize = 1 << 30
	defaultAge  = 72 * time.Hour
)

// files is into how many files a log is divided, roughly.
const files = 16

// ErrClosed says that the logs have been closed.
const ErrClosed = errors.ConstError("logs are closed")

// Options say where logs are, and how much is kept of each.
type Options struct {
	Dir     string        // required; made if it is missing
	MaxSize int64         // of one model's log, in bytes; 0 means 1 GiB
	MaxAge  time.Duration // of a record; 0 means 72 hours
}

// Store keeps logs.
type Store struct {
	tomb tomb.Tomb
	o    Options

	mu   sync.Mutex
	logs map[string]*modelLog // by model; nil once closed
}

// Open opens the logs in a folder.
func Open(o Options) (*Store, error) {
	if o.MaxSize == 0 {
		o.MaxSize = defaultSize
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultAge
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, errors.Annotate(err, "cannot keep logs")
	}
	s := &Store{o: o, logs: make(map[string]*modelLog)}
	s.tomb.Go(s.age)
	return s, nil
}

// Close ends all readers and closes the files.
func (s *Store) Close() error {
	s.tomb.Kill(nil)
	err := s.tomb.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.close()
	}
	s.logs = nil
	return err
}

// age removes what has become too old, also of logs that nobody writes to.
func (s *Store) age() error {
	tick := time.NewTicker(max(s.o.MaxAge/files/4, time.Second))
	defer tick.Stop()
	for {
		s.prune()
		select {
		case <-s.tomb.Dying():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) prune() {
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		logger.Warningf("cannot look for old logs: %v", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if l, err := s.log(e.Name()); err == nil {
			l.prune(s.o, time.Now())
		}
	}
}

// log returns the log of a model.
func (s *Store) log(model string) (*modelLog, error) {
	if model == "" || strings.ContainsAny(model, "/\\.") {
		return nil, errors.NotValidf("model %q", model)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		return nil, ErrClosed
	}
	l := s.logs[model]
	if l == nil {
		l = &modelLog{dir: filepath.Join(s.o.Dir, model), changed: make(chan struct{})}
		s.logs[model] = l
	}
	return l, nil
}

// Append adds records to the log of a model, which is its UUID.
func (s *Store) Append(model string, records ...Record) error {
	l, err := s.log(model)
	if err != nil {
		return errors.Annotate(err, "cannot keep log records")
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	for _, r := range records {
		if err := e.Encode(r.trim()); err != nil {
			return errors.Annotate(err, "cannot keep a log record") // a time beyond the year 9999
		}
	}
	return errors.Annotate(l.append(buf.Bytes(), s.o, time.Now()), "cannot keep log records")
}

// modelLog is the log of one model.
type modelLog struct {
	dir string

	mu      sync.Mutex
	file    *os.File // the newest; nil until it is needed
	number  int      // of it
	size    int64    // likewise
	begun   time.Time
	changed chan struct{} // closed and replaced at each change
	closed  bool
}

// fileName returns the name of a file by its number.
func fileName(number int) string { return fmt.Sprintf("%010d.log", number) }

// numbers returns the numbers of a log's files, ascending.
func (l *modelLog) numbers() ([]int, error) {
	entries, err := os.ReadDir(l.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	var out []int
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".log"); ok {
			if n, err := strconv.Atoi(name); err == nil {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// append adds lines to the newest file.
func (l *modelLog) append(lines []byte, o Options, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.file == nil:
		if err := l.open(now); err != nil {
			return errors.Trace(err)
		}
	case l.size > 0 && (l.size+int64(len(lines)) > o.MaxSize/files || now.Sub(l.begun) > o.MaxAge/files):
		if err := l.begin(l.number+1, now); err != nil {
			return errors.Trace(err)
		}
		l.pruneLocked(o, now)
	}
	n, err := l.file.Write(lines)
	l.size += int64(n)
	if err != nil {
		_ = l.file.Close() // it is opened anew, and its end mended
		l.file = nil
		return errors.Trace(err)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// open opens the newest file, or begins the first.
func (l *modelLog) open(now time.Time) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return errors.Trace(err)
	}
	numbers, err := l.numbers()
	if err != nil {
		return errors.Trace(err)
	}
	number := 1
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1]
	}
	return l.begin(number, now)
}

// begin makes a file the newest, whose last line is ended if a crash cut it off.
func (l *modelLog) begin(number int, now time.Time) error {
	f, err := os.OpenFile(filepath.Join(l.dir, fileName(number)), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte("\n"))
		}
		if err == nil {
			info, err = f.Stat()
		}
	}
	if err != nil {
		_ = f.Close() // it is not used
		return errors.Trace(err)
	}
	if l.file != nil {
		_ = l.file.Close() // what was written to it is there
	}
	l.file, l.number, l.size, l.begun = f, number, info.Size(), now
	return nil
}

// prune removes files that are too old or too much.
func (l *modelLog) prune(o Options, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.pruneLocked(o, now)
	}
}

func (l *modelLog) pruneLocked(o Options, now time.Time) {
	numbers, err := l.numbers()
	if err != nil {
		logger.Warningf("cannot look for old log files: %v", err)
		return
	}
	var total int64
	for _, n := range slices.Backward(numbers) {
		path := filepath.Join(l.dir, fileName(n))
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		total += info.Size()
		current := l.file != nil && n == l.number
		if current || total <= o.MaxSize && now.Sub(info.ModTime()) <= o.MaxAge {
			continue
		}
		if err := os.Remove(path); err != nil {
			logger.Warningf("cannot remove an old log file: %v", err)
		}
	}
	if l.file == nil {
		_ = os.Remove(l.dir) // fails while there is anything in it
	}
}

// close ends the log and its readers.
func (l *modelLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.file != nil {
		_ = l.file.Close() // what was written to it is there
		l.file = nil
	}
	close(l.changed)
}
