package thread_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-project/slipway/internal/testport"
)

// programs are built once for all stories.
var programs = []string{"controllerd", "provisionerd", "slipway"}

// build builds the programs and returns the folder that they are in.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range programs {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, p), "github.com/slipway-project/slipway/cmd/"+p)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", p, err, out)
		}
	}
	return dir
}

// process is a program that a story left running.
type process struct {
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when it has ended
	err    error         // how it ended, once done is closed
}

// output collects what a process prints.
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

// processesKey is where a story's environment holds its processes.
type processesKey struct{}

type processes map[string]*process

// TestStories runs the stories in testdata/script. ADDRESS0 and ADDRESS1 are for programs
// that have to come back where they were. Besides what testscript offers they use
//
//	serve NAME PROGRAM ARGS...   start a program, wait until it is ready, and
//	                             leave its address in $NAME
//	begin NAME PROGRAM ARGS...   start a program that is never ready
//	term NAME                    end a program with SIGTERM: it has to exit with 0
//	                             within the time that any wait of a story has
//	silent NAME TEXT             check that a program has not printed TEXT
//	slay NAME                    end a program with SIGKILL
//	say NAME TEXT                wait until a program has printed TEXT
//	readenv NAME FILE            put the content of a file into $NAME
//	until TEXT PROGRAM ARGS...   run a program until its output contains TEXT,
//	                             or no longer does if negated
func TestStories(t *testing.T) {
	bin := build(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("SLIPWAY_DATA", filepath.Join(env.WorkDir, "site", "client"))
			for i, addr := range testport.Free(t, 2) {
				env.Setenv(fmt.Sprintf("ADDRESS%d", i), addr)
			}
			all := processes{}
			env.Values[processesKey{}] = all
			env.Defer(func() {
				for _, p := range all {
					_ = p.cmd.Process.Kill() // it may have ended
					<-p.done
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serve, "begin": begin, "term": term, "slay": slay, "say": say, "silent": silent, "until": until, "readenv": readenv,
		},
	})
}

func start(ts *testscript.TestScript, args []string) *process {
	if len(args) < 2 {
		ts.Fatalf("usage: NAME PROGRAM ARGS...")
	}
	path := filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], args[1])
	p := &process{cmd: exec.Command(path, args[2:]...), output: &output{}, done: make(chan struct{})}
	p.cmd.Dir = ts.Getenv("WORK")
	p.cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+ts.Getenv("SLIPWAY_DATA"))
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = time.Minute // what it has started may hold its output open
	ts.Check(p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	ts.Value(processesKey{}).(processes)[args[0]] = p
	return p
}

func begin(ts *testscript.TestScript, _ bool, args []string) { start(ts, args) }

// patience bounds every wait of a story.
const patience = 3 * time.Minute

// eventually calls a function until it says that it is content.
func eventually(ts *testscript.TestScript, what string, content func() bool) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !content() {
		if time.Now().After(deadline) {
			ts.Fatalf("%s: not after %v", what, patience)
		}
		<-tick.C
	}
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	p := start(ts, args)
	address := ""
	eventually(ts, args[0]+" ready", func() bool {
		for line := range strings.Lines(p.output.String()) {
			if a, ok := strings.CutPrefix(line, "ready "); ok && strings.HasSuffix(a, "\n") {
				address = strings.TrimSpace(a)
			}
		}
		select {
		case <-p.done:
			ts.Fatalf("%s ended: %v\n%s", args[0], p.err, p.output)
		default:
		}
		return address != ""
	})
	ts.Setenv(args[0], address)
}

func find(ts *testscript.TestScript, args []string) *process {
	p, ok := ts.Value(processesKey{}).(processes)[args[0]]
	if !ok {
		ts.Fatalf("there is no process %q", args[0])
	}
	return p
}

func term(ts *testscript.TestScript, _ bool, args []string) {
	p := find(ts, args)
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s still runs %v after SIGTERM\n%s", args[0], patience, p.output)
	}
	if p.err != nil {
		ts.Fatalf("%s ended with %v, want exit code 0\n%s", args[0], p.err, p.output)
	}
}

func slay(ts *testscript.TestScript, _ bool, args []string) {
	p := find(ts, args)
	ts.Check(p.cmd.Process.Kill())
	<-p.done
}

func say(ts *testscript.TestScript, _ bool, args []string) {
	p := find(ts, args)
	eventually(ts, fmt.Sprintf("%s to say %q", args[0], args[1]), func() bool {
		return strings.Contains(p.output.String(), args[1])
	})
}

func silent(ts *testscript.TestScript, _ bool, args []string) {
	if p := find(ts, args); strings.Contains(p.output.String(), args[1]) {
		ts.Fatalf("%s printed %q:\n%s", args[0], args[1], p.output)
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	path := filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], args[1])
	var last []byte
	deadline := time.Now().Add(patience)
	for {
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+ts.Getenv("SLIPWAY_DATA"))
		last, _ = cmd.CombinedOutput() // a failure shows in the output
		if bytes.Contains(last, []byte(args[0])) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v has not changed about %q after %v:\n%s", args[1:], args[0], patience, last)
		}
	}
}

func readenv(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
