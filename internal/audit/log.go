package audit

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/apiserver"
)

var logger = loggo.GetLogger("slipway.audit")

// The limits of a log.
const (
	room      = 8192                   // records that wait to be written
	patience  = 500 * time.Millisecond // that a call waits for room
	pause     = time.Second            // between tries to write
	maxBatch  = 512                    // records written at once
	syncEvery = time.Second
)

// Log is an audit log. It is told of calls as the observer of a server.
type Log struct {
	tomb   tomb.Tomb
	path   string
	queue  chan []byte
	reopen chan struct{}
	file   sink // used by the loop alone; nil while it cannot be opened

	mu   sync.Mutex
	err  error // why nothing can be written; nil if it can
	lost int   // records that found no room
}

// sink is the file that is written: an *os.File.
type sink interface {
	io.WriteCloser
	Sync() error
}

var _ apiserver.Observer = (*Log)(nil)

// Open opens the log at path, which is made if it is missing, and then and
// thereafter only for its owner to read. It returns an error satisfying
// errors.NotValid if something other than a file is there.
func Open(path string) (*Log, error) {
	l := &Log{path: path, queue: make(chan []byte, room), reopen: make(chan struct{}, 1)}
	if err := l.open(); err != nil {
		return nil, errors.Annotate(err, "cannot open the audit log")
	}
	l.tomb.Go(l.loop)
	return l, nil
}

// Kill asks the log to write what waits, and to close.
func (l *Log) Kill() { l.tomb.Kill(nil) }

// Wait returns when the log has closed: nil if everything was written.
func (l *Log) Wait() error { return l.tomb.Wait() }

// Reopen has the log close its file and open the one at its path, which may be
// another by now.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default: // it is about to
	}
}

// Failing returns why the log cannot be written at the moment, nil if it can.
func (l *Log) Failing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// LoggedIn implements apiserver.Observer.
func (l *Log) LoggedIn(login apiserver.Login) { l.add(loginRecord(login).line()) }

// Called implements apiserver.Observer. Calls that only read are not recorded.
func (l *Log) Called(c apiserver.Call) {
	if c.Writes {
		l.add(callRecord(c).line())
	}
}

// add has a line written. A log that is slow holds up the call; one that fails
// does not, once there is no more room.
func (l *Log) add(line []byte) {
	select {
	case l.queue <- line:
		return
	default:
	}
	if l.Failing() == nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case l.queue <- line:
			return
		case <-timer.C:
		case <-l.tomb.Dead():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
	if l.lost == 1 {
		logger.Errorf("audit log %s: there is no room for more records; those that are lost are counted", l.path)
	}
}

// loop writes what comes, until the log is killed and nothing more is there.
func (l *Log) loop() error {
	defer func() {
		if l.file != nil {
			_ = l.file.Close() // it has been synced
		}
	}()
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	dirty := false
	for {
		select {
		case <-l.tomb.Dying():
			return l.finish()
		case <-l.reopen:
			l.renew()
		case line := <-l.queue:
			l.write(l.gather(line))
			dirty = true
		case <-tick.C:
			if l.file == nil {
				l.renew()
			} else if dirty {
				_ = l.file.Sync() // the next write tells
			}
			dirty = false
		}
	}
}

// renew opens the file while nothing waits to be written.
func (l *Log) renew() {
	if err := l.open(); err != nil {
		l.trouble(err)
		return
	}
	l.recovered()
}

// gather returns the lines that wait, line before them.
func (l *Log) gather(line []byte) []byte {
	batch := line
	for range maxBatch {
		select {
		case next := <-l.queue:
			batch = append(batch, next...)
		default:
			return batch
		}
	}
	return batch
}

// write writes lines, and tries until that succeeds or the log is killed: then
// it makes a last try, and counts what is not written as lost.
func (l *Log) write(lines []byte) {
	torn := false
	for {
		var err error
		lines, torn, err = l.put(lines, torn)
		if err == nil {
			l.recovered()
			return
		}
		l.trouble(err)
		if !l.tomb.Alive() {
			l.unwritten(lines)
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.reopen:
		case <-l.tomb.Dying():
		}
		timer.Stop()
		if err := l.open(); err != nil {
			l.trouble(err)
		}
	}
}

// put writes lines once. It returns what is left, which begins with a line of
// which a part is in the file if torn.
func (l *Log) put(lines []byte, torn bool) (left []byte, tornNow bool, err error) {
	if l.file == nil {
		return lines, torn, errors.Errorf("%s is not open", l.path)
	}
	if torn {
		if _, err := l.file.Write([]byte("\n")); err != nil {
			return lines, torn, err
		}
	}
	n, err := l.file.Write(lines)
	if err == nil {
		return nil, false, nil
	}
	whole := 0
	for i := range n {
		if lines[i] == '\n' {
			whole = i + 1
		}
	}
	return lines[whole:], whole < n, err
}

// open opens the file at the log's path in place of the one that is open.
func (l *Log) open() error {
	if l.file != nil {
		_ = l.file.Sync() // what fails here has failed before, or fails again
		_ = l.file.Close()
		l.file = nil
	}
	if info, err := os.Stat(l.path); err == nil && !info.Mode().IsRegular() {
		return errors.NewNotValid(nil, fmt.Sprintf("%s is not a file", l.path))
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	if err := f.Chmod(0o600); err != nil {
		_ = f.Close() // it was not used
		return errors.Trace(err)
	}
	l.file = f
	return nil
}

// trouble notes why nothing can be written, and says so once.
func (l *Log) trouble(err error) {
	l.mu.Lock()
	first := l.err == nil
	l.err = err
	l.mu.Unlock()
	if first {
		logger.Errorf("audit log %s cannot be written, trying again every %v: %v", l.path, pause, err)
	}
}

// recovered notes that the file can be written, and records what was lost.
func (l *Log) recovered() {
	l.mu.Lock()
	failed, lost := l.err != nil, l.lost
	l.err, l.lost = nil, 0
	l.mu.Unlock()
	if lost > 0 {
		line := record{Time: time.Now().UTC(), Event: eventLost, Lost: lost}.line()
		if _, err := l.file.Write(line); err != nil {
			l.mu.Lock()
			l.lost += lost // to be told the next time
			l.mu.Unlock()
			return
		}
	}
	if failed || lost > 0 {
		logger.Warningf("audit log %s is written again; %d records were lost", l.path, lost)
	}
}

// finish writes what waits, and tells what could not be written.
func (l *Log) finish() error {
	for len(l.queue) > 0 {
		l.write(l.gather(<-l.queue))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost > 0:
		return errors.Errorf("cannot write the audit log %s: %d records are lost: %v", l.path, l.lost, l.err)
	case l.file == nil:
		return nil
	}
	return errors.Annotate(l.file.Sync(), "cannot write the audit log")
}

// unwritten counts lines as lost.
func (l *Log) unwritten(lines []byte) {
	n := 0
	for _, b := range lines {
		if b == '\n' {
			n++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += n
}
