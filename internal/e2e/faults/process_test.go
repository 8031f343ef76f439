//go:build e2e

package faults_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests.
const patience = 3 * time.Minute

// eventually waits until a function is content. It looks again and again, since
// what it looks at is in other processes.
func eventually(t testing.TB, what string, content func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !content() {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
		<-tick.C
	}
}

// output collects what a process prints in all of its lives.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a program that is started again and again.
type process struct {
	t        testing.TB
	name     string
	program  string   // one of ours
	absolute string   // instead of program: one of the system
	inside   []string // what the program is run with, such as nsenter; nil means nothing
	args     func() []string
	out      output
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
}

// start starts the program, unless it runs.
func (p *process) start() {
	p.t.Helper()
	program := p.absolute
	if program == "" {
		program = filepath.Join(programs, p.program)
	}
	line := slices.Concat(p.inside, []string{program}, p.args())
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Minute // what it has started may hold its output open
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // it is killed, most often
	}(p.cmd, p.done)
}

// serve starts the program and waits until it says where it serves.
func (p *process) serve() (address string) {
	p.t.Helper()
	before := len(p.out.String())
	p.start()
	eventually(p.t, p.name+" is ready", func() bool {
		for line := range strings.Lines(p.out.String()[before:]) {
			if a, ok := strings.CutPrefix(line, "ready "); ok && strings.HasSuffix(a, "\n") {
				address = strings.TrimSpace(a)
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended:\n%s", p.name, p.out.String()[before:])
		default:
		}
		return address != ""
	})
	return address
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// signal sends a signal: SIGSTOP holds the process up, SIGCONT lets it go on.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("cannot signal %s: %v", p.name, err)
	}
}

// pause holds the process up for some time.
func (p *process) pause(d time.Duration) {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	<-time.After(d)
	p.signal(syscall.SIGCONT)
}

// says waits until the process has printed a text since it had printed so much.
func (p *process) says(text string, since int) {
	p.t.Helper()
	eventually(p.t, p.name+" says "+text, func() bool { return strings.Contains(p.out.String()[since:], text) })
}
