package mongotest

import (
	"context"
	"math/rand/v2"
	"time"
)

// Effect is what a fault does.
type Effect int

// The effects. The zero one is not valid.
const (
	CutBefore Effect = iota + 1 // close the connection instead of running the command
	CutAfter                    // run the command, then close the connection instead of answering
	StepDown                    // another member becomes primary before the command runs
	Fail                        // answer with Code instead of running the command
)

// Fault is something that goes wrong once or more, with a command.
type Fault struct {
	Command string // its name; "" means any but those that connect and log in
	Skip    int    // let so many of them pass first
	Times   int    // then so many are struck; 0 means 1
	Effect  Effect
	Code    int // for Fail: the server's error code
}

// Inject adds a fault.
func (s *Server) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Pending returns how many strikes of injected faults are still to come.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.faults {
		n += f.Times
	}
	return n
}

// strike returns the fault that hits a command, if one does.
func (s *Server) strike(command string) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Command != command && (f.Command != "" || quiet[command]) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		hit := *f
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		}
		return hit, true
	}
	return Fault{}, false
}

// StepDown makes the next member primary at once. Transactions under way are
// aborted, as a real election does. With a single member there is no primary
// for a moment; it is then elected again.
func (s *Server) StepDown() {
	s.mu.Lock()
	old := s.primary
	single := s.config.Members == 1
	if single {
		s.primary = -1
	} else {
		s.primary = (max(old, 0) + 1) % s.config.Members
	}
	s.dethrone()
	s.reign, s.dethrone = context.WithCancel(context.Background())
	s.mu.Unlock()
	s.engine.abortAll()
	if !single || old < 0 {
		return
	}
	time.AfterFunc(200*time.Millisecond, func() { // as short as an election can be
		s.mu.Lock()
		defer s.mu.Unlock()
		s.primary = old
	})
}

// CutConnections closes every connection.
func (s *Server) CutConnections() {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// DropHistory forgets all changes, as if the log of operations had been
// written over: no change stream can be resumed from before.
func (s *Server) DropHistory() { s.engine.dropHistory() }

// DropCursors forgets all open cursors, as a server does that has restarted.
func (s *Server) DropCursors() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.cursors)
}

// healing is how many writes must have succeeded between two strikes of Harm.
const healing = 5

// Harm does damage until done is closed: elections, cut connections, and faults that
// strike reads, writes and commits. The dice decide which. It strikes every 60 to
// 210 ms, but not before clients have come back and written something: on a busy
// machine they would else get nothing done.
func (s *Server) Harm(dice *rand.Rand, done <-chan struct{}) {
	for {
		written := s.written.Load()
		pause := time.Duration(60+dice.IntN(150)) * time.Millisecond
		for healed := false; !healed; healed = s.written.Load() >= written+healing {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			pause = 10 * time.Millisecond
		}
		command := []string{"update", "commitTransaction", "find", ""}[dice.IntN(4)]
		switch dice.IntN(6) {
		case 0:
			s.StepDown()
		case 1:
			s.CutConnections()
		case 2:
			s.Inject(Fault{Command: command, Effect: CutAfter, Times: 1 + dice.IntN(3)})
		case 3:
			s.Inject(Fault{Command: command, Effect: CutBefore})
		case 4:
			s.Inject(Fault{Command: command, Effect: StepDown})
		case 5:
			s.Inject(Fault{Command: "update", Effect: Fail, Code: codeWriteConflict, Times: 3})
		}
	}
}
