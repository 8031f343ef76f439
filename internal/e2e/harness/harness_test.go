package harness_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

func shell(t testing.TB, script string) *harness.Process {
	return harness.New(t, harness.Config{Name: "script", Program: "/bin/sh", Args: func() []string { return []string{"-c", script} }})
}

func TestProcess(t *testing.T) {
	p := shell(t, `trap 'exit 0' TERM; echo one; echo ready 127.0.0.1:1; echo two >&2; while :; do sleep 0.01; done`)
	for n := range 2 {
		since := len(p.Printed())
		if got := p.Serve(); got != "127.0.0.1:1" {
			t.Errorf("Serve() = %q", got)
		}
		p.Says("two", since)
		p.Pause(time.Millisecond)
		if p.Pid() <= 0 || p.Ended() {
			t.Fatal("it has ended by itself")
		}
		if n == 0 {
			p.Kill()
		} else {
			p.End()
		}
		if !p.Ended() {
			t.Error("it goes on")
		}
		<-p.Done()
	}
	if got := strings.Count(p.Printed(), "one"); got != 2 {
		t.Errorf("it printed %d of the lives of two", got)
	}
	if got := harness.Run(t, []string{"WORD=x"}, "/bin/sh", "-c", "echo $WORD"); got != "x\n" {
		t.Errorf("Run = %q", got)
	}
}

// verdict takes what a test is told, and ends it where it fails.
type verdict struct {
	testing.TB
	said []string
}

func (v *verdict) Helper() {}
func (v *verdict) Fatalf(format string, args ...any) {
	v.said = append(v.said, format)
	panic(v)
}
func (v *verdict) Errorf(format string, args ...any) { v.said = append(v.said, format) }

func TestWhatFails(t *testing.T) {
	for name, f := range map[string]func(v *verdict){
		"never ready": func(v *verdict) { shell(v, "echo readily").Serve() },
		"exit code": func(v *verdict) {
			p := shell(v, "trap 'exit 3' TERM; echo ready x; while :; do sleep 0.01; done")
			p.Serve()
			p.End()
		},
		"ended already": func(v *verdict) { p := shell(v, "echo ready x"); p.Serve(); <-p.Done(); p.Signal(syscall.SIGTERM) },
	} {
		v := &verdict{TB: t}
		func() {
			defer func() { _ = recover() }() // v ends it so
			f(v)
		}()
		if len(v.said) != 1 {
			t.Errorf("%s: said %q", name, v.said)
		}
	}
}

func TestAProcessHasItsFolderAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	p := harness.New(t, harness.Config{
		Program: "/bin/sh", Args: func() []string { return []string{"-c", "echo $SLIPWAY_HARNESS at $(pwd -P)"} },
		Dir: dir, Env: []string{"SLIPWAY_HARNESS=told"},
	})
	p.Start()
	<-p.Done()
	real, err := filepath.EvalSymlinks(dir)
	if want := "told at " + real + "\n"; err != nil || p.Printed() != want {
		t.Errorf("it printed %q, want %q, %v", p.Printed(), want, err)
	}
}
