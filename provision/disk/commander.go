package disk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/config"
)

var logger = loggo.GetLogger("slipway.provision.disk")

// Commander runs programs. Run returns what the program wrote to its standard
// output. If the program cannot be started or fails, the error has a
// *CommandError in its chain; errors.NotFound if there is no such program.
type Commander interface {
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// CommandError tells how a program failed.
type CommandError struct {
	Name   string
	Code   int    // exit code; -1 if it did not start or was killed
	Output string // the end of what it wrote, on one line, redacted
}

// Error implements error.
func (e *CommandError) Error() string {
	text := fmt.Sprintf("%s exited with code %d", e.Name, e.Code)
	if e.Code < 0 {
		text = fmt.Sprintf("%s did not finish", e.Name)
	}
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

// ExitCode returns the exit code of the program that failed with err, 0 for a
// nil error, and -1 if none exited.
func ExitCode(err error) int {
	var c *CommandError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &c):
		return c.Code
	}
	return -1
}

// maxOutput bounds what is kept of a program's output, and maxError what of it
// goes into an error.
const (
	maxOutput = 4 << 20
	maxError  = 1024
)

// ExecCommander runs programs of the machine it runs on.
type ExecCommander struct{}

// Run implements Commander. The program gets its own process group, which is
// killed as a whole when ctx ends, and the locale C.
func (ExecCommander) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, errors.NotFoundf("program %s in %s", name, os.Getenv("PATH"))
	}
	logger.Debugf("run %s", config.Redact(strings.Join(append([]string{name}, args...), " ")))
	var stdout, both limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LVM_SUPPRESS_FD_WARNINGS=1")
	cmd.Stdout = &tee{&stdout, &both}
	cmd.Stderr = &both
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		code := -1
		if cmd.ProcessState != nil {
			code = cmd.ProcessState.ExitCode()
		}
		if ctx.Err() != nil {
			return stdout.Bytes(), errors.Annotatef(ctx.Err(), "%s was stopped", name)
		}
		return stdout.Bytes(), errors.Trace(&CommandError{Name: name, Code: code, Output: oneLine(both.String())})
	}
	return stdout.Bytes(), nil
}

// oneLine returns the redacted end of a program's output.
func oneLine(s string) string {
	s = config.Redact(strings.Join(strings.Fields(s), " "))
	if len(s) > maxError {
		s = "..." + s[len(s)-maxError:]
	}
	return s
}

// limited is a buffer that forgets what is beyond its limit.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// tee writes to both buffers.
type tee struct{ a, b *limited }

func (t *tee) Write(p []byte) (int, error) {
	_, _ = t.a.Write(p)
	return t.b.Write(p)
}
