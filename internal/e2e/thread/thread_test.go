package thread_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
)

// build builds the programs and returns the folder that they are in.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := harness.Build(dir, "controllerd", "provisionerd", "slipway"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// story is a running script as the harness wants it: what fails ends the script, and
// processes end with it.
type story struct {
	testing.TB // of all stories
	ts         *testscript.TestScript
	failed     bool
}

func (s *story) Helper()                           {}
func (s *story) Cleanup(f func())                  { s.ts.Defer(f) }
func (s *story) Failed() bool                      { return s.failed }
func (s *story) Fatal(args ...any)                 { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *story) Errorf(format string, args ...any) { s.Fatalf(format, args...) }
func (s *story) Logf(format string, args ...any)   { s.ts.Logf(format, args...) }

func (s *story) Fatalf(format string, args ...any) {
	s.failed = true
	s.ts.Fatalf(format, args...)
}

// processesKey is where a story's environment holds its processes.
type processesKey struct{}

type processes map[string]*harness.Process

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
			env.Values[processesKey{}] = processes{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], create(t, ts, args).Serve())
			},
			"begin":  func(ts *testscript.TestScript, _ bool, args []string) { create(t, ts, args).Start() },
			"term":   func(ts *testscript.TestScript, _ bool, args []string) { find(ts, args).End() },
			"slay":   func(ts *testscript.TestScript, _ bool, args []string) { find(ts, args).Kill() },
			"say":    func(ts *testscript.TestScript, _ bool, args []string) { find(ts, args).Says(args[1], 0) },
			"silent": silent, "until": until, "readenv": readenv,
		},
	})
}

// create returns the process that a story starts under a name.
func create(t *testing.T, ts *testscript.TestScript, args []string) *harness.Process {
	if len(args) < 2 {
		ts.Fatalf("usage: NAME PROGRAM ARGS...")
	}
	p := harness.New(&story{TB: t, ts: ts}, harness.Config{
		Name: args[0], Program: program(ts, args[1]), Args: func() []string { return args[2:] },
		Dir: ts.Getenv("WORK"), Env: []string{"SLIPWAY_DATA=" + ts.Getenv("SLIPWAY_DATA")},
	})
	ts.Value(processesKey{}).(processes)[args[0]] = p
	return p
}

// program returns the path of one of ours.
func program(ts *testscript.TestScript, name string) string {
	return filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], name)
}

func find(ts *testscript.TestScript, args []string) *harness.Process {
	p, ok := ts.Value(processesKey{}).(processes)[args[0]]
	if !ok {
		ts.Fatalf("there is no process %q", args[0])
	}
	return p
}

func silent(ts *testscript.TestScript, _ bool, args []string) {
	if said := find(ts, args).Printed(); strings.Contains(said, args[1]) {
		ts.Fatalf("%s printed %q:\n%s", args[0], args[1], said)
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	path := program(ts, args[1])
	var last []byte
	deadline := time.Now().Add(harness.Patience)
	for {
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+ts.Getenv("SLIPWAY_DATA"))
		last, _ = cmd.CombinedOutput() // a failure shows in the output
		if bytes.Contains(last, []byte(args[0])) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v has not changed about %q after %v:\n%s", args[1:], args[0], harness.Patience, last)
		}
	}
}

func readenv(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
