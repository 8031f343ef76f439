package harness

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shown is how many of a process's last lines a failed test shows.
const shown = 80

// Config says what a process is. Program is required.
type Config struct {
	Name    string          // in messages; empty means the last part of Program
	Program string          // its path
	Args    func() []string // asked for at each start; nil means none
	Inside  []string        // what the program is run with, such as nsenter; nil means nothing
	Dir     string          // that it runs in; empty means this process's
	Env     []string        // NAME=VALUE, beside those of this process
}

// Process is a program that is started again and again. Its methods are for the
// test's own goroutine, but for Printed.
type Process struct {
	t    testing.TB
	cfg  Config
	mu   sync.Mutex
	out  bytes.Buffer // of all its lives
	cmd  *exec.Cmd    // of the latest life; nil before the first
	done chan struct{}
	err  error // how the latest life ended, once done is closed
}

// New returns a process that is not running. When the test ends it is killed, and
// what it printed last is shown if the test failed.
func New(t testing.TB, cfg Config) *Process {
	if cfg.Name == "" {
		cfg.Name = cfg.Program[strings.LastIndex(cfg.Program, "/")+1:]
	}
	p := &Process{t: t, cfg: cfg}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed at last:\n%s", cfg.Name, p.tail())
		}
	})
	return p
}

// Name returns what the process is called in messages.
func (p *Process) Name() string { return p.cfg.Name }

// Write keeps what the process prints.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Printed returns what the process has printed in all of its lives.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *Process) tail() string {
	lines := strings.Split(p.Printed(), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

// Start starts the program. It dies with the process of the test.
func (p *Process) Start() {
	p.t.Helper()
	line := append(slices.Clone(p.cfg.Inside), p.cfg.Program)
	if p.cfg.Args != nil {
		line = append(line, p.cfg.Args()...)
	}
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Dir, p.cmd.Env = p.cfg.Dir, append(os.Environ(), p.cfg.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Minute // what it has started may hold its output open
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		p.err = cmd.Wait()
	}(p.cmd, p.done)
}

// Serve starts the program, waits until it says that it is ready, and returns the
// address that it says it with.
func (p *Process) Serve() (address string) {
	p.t.Helper()
	since := len(p.Printed())
	p.Start()
	return p.Ready(since)
}

// Ready waits until the process has said that it is ready, after the first bytes
// that it has printed, and returns its address.
func (p *Process) Ready(since int) (address string) {
	p.t.Helper()
	Eventually(p.t, p.cfg.Name+" is ready", func() bool {
		ended := p.Ended() // first: what it has printed is whole then
		for line := range strings.Lines(p.Printed()[since:]) {
			if a, ok := strings.CutPrefix(line, "ready "); ok && strings.HasSuffix(a, "\n") {
				address = strings.TrimSpace(a)
			}
		}
		if address == "" && ended {
			p.t.Fatalf("%s ended: %v\n%s", p.cfg.Name, p.err, p.tail())
		}
		return address != ""
	})
	return address
}

// Says waits until the process has printed a text, after the first bytes that it
// has printed.
func (p *Process) Says(text string, since int) {
	p.t.Helper()
	Eventually(p.t, p.cfg.Name+" says "+text, func() bool { return strings.Contains(p.Printed()[since:], text) })
}

// Ended reports whether the latest life has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Pid returns the process id of the latest life.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the latest life has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process with SIGKILL, if it runs, and waits for its end.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Signal sends a signal: SIGSTOP holds the process up, SIGCONT lets it go on.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("cannot signal %s: %v", p.cfg.Name, err)
	}
}

// Pause holds the process up for some time.
func (p *Process) Pause(d time.Duration) {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	<-time.After(d)
	p.Signal(syscall.SIGCONT)
}

// End ends the process in good order, with SIGTERM: it has to exit with 0.
func (p *Process) End() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.t.Fatalf("%s does not end\n%s", p.cfg.Name, p.tail())
	}
	if p.err != nil {
		p.t.Errorf("%s ended with %v", p.cfg.Name, p.err)
	}
}
