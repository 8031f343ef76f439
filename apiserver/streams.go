package apiserver

import (
	"sync"
	"time"

	"github.com/juju/loggo"
)

// streams counts the streams of a server, which it waits for in the end.
type streams struct {
	mu    sync.Mutex
	n     int
	ended bool
	none  chan struct{} // closed when it has ended and there are none
}

func newStreams() *streams { return &streams{none: make(chan struct{})} }

// add notes that there are so many more. It reports whether they may go on.
func (s *streams) add(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && n > 0 {
		return false
	}
	s.n += n
	if s.ended && s.n == 0 {
		close(s.none)
	}
	return true
}

// wait lets no more begin, and returns when there are none.
func (s *streams) wait() {
	s.mu.Lock()
	s.ended = true
	if s.n == 0 {
		close(s.none)
	}
	s.mu.Unlock()
	<-s.none
}

// sayEvery is how often the same trouble is told.
const sayEvery = time.Minute

// trouble tells of failures, but not of each.
type trouble struct {
	mu    sync.Mutex
	what  string
	level loggo.Level // of the messages
	last  time.Time
	more  int
}

// tell tells of a failure, unless it has told of one just now.
func (t *trouble) tell(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.last) < sayEvery {
		t.more++
		return
	} else {
		t.last = now
	}
	logger.Logf(t.level, "%s: %v (%d times more since the last message)", t.what, err, t.more)
	t.more = 0
}
