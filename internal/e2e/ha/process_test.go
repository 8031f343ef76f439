//go:build e2e

package ha_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/loggo"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// programs is the folder of the commands, made once.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ha-*")
	if err != nil {
		panic(err)
	}
	programs = dir
	loggo.GetLogger("slipway").SetLogLevel(loggo.CRITICAL) // hundreds of clients lose their connection
	code := 1
	cmd := exec.Command("go", "build", "-o", dir+"/", "github.com/slipway-project/slipway/cmd/controllerd",
		"github.com/slipway-project/slipway/cmd/mongodouble", "github.com/slipway-project/slipway/cmd/provisionerd", "github.com/slipway-project/slipway/cmd/slipway")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err == nil {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// eventually waits until a function is content. It looks again and again, since
// what it looks at is in other processes.
func eventually(t *testing.T, what string, content func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !content() {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
		<-tick.C
	}
}

// process is a program that runs, and may be started again.
type process struct {
	t    *testing.T
	args []string // the program's name first
	mu   sync.Mutex
	out  bytes.Buffer // of all its lives
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended, once done is closed
}

// Write keeps what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// launch starts a program, and kills it at the end of the test.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", strings.Join(p.args[:2], " "), tail(p.printed()))
		}
	})
	return p
}

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(filepath.Join(programs, p.args[0]), p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
}

// ready waits until the process has said so since it had printed so much, and
// returns its address.
func (p *process) ready(since int) (address string) {
	p.t.Helper()
	eventually(p.t, p.args[0]+" is ready", func() bool {
		for line := range strings.Lines(p.printed()[since:]) {
			if a, ok := strings.CutPrefix(line, "ready "); ok && strings.HasSuffix(a, "\n") {
				address = strings.TrimSpace(a)
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended: %v\n%s", p.args[0], p.err, tail(p.printed()))
		default:
		}
		return address != ""
	})
	return address
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// restart ends the process in good order and starts it again.
func (p *process) restart() {
	p.t.Helper()
	p.end()
	since := len(p.printed())
	p.start()
	p.ready(since)
}

// end ends the process in good order.
func (p *process) end() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end\n%s", p.args[0], tail(p.printed()))
	}
	if p.err != nil {
		p.t.Errorf("%s ended with %v", p.args[0], p.err)
	}
}

// command runs a program to its end and returns what it printed.
func command(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, args[0]), args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}
