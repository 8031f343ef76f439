package upgrader

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailSize = 64 << 10 // bytes: enough for the traces of a panic

// Write implements io.Writer. It never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append([]byte(nil), t.text[n:]...)
	}
	return len(b), nil
}

// line returns the line that says most, shortened, behind a colon: the last one
// that tells of an error or a panic, or else the last one. It is empty if there is
// none.
func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "")), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	for _, line := range lines {
		if strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			last = strings.TrimSpace(line)
		}
	}
	if last == "" {
		return ""
	}
	if r := []rune(last); len(r) > 200 {
		last = string(r[:200]) + "..."
	}
	return ": " + last
}

// trial runs a program beside this one until it has logged in once. Its error is
// of kind errUnfit if it does not, unless ctx ends first.
func trial(ctx context.Context, program, agentFile string, deadline time.Duration) error {
	timed, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var said tail
	cmd := exec.CommandContext(timed, program, "machine", "--agent-file", agentFile, "--trial", deadline.String())
	cmd.Stderr = &said
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the whole group
	cmd.WaitDelay = 5 * time.Second
	// The child ends with the thread that started it, which must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil:
		return unfitf("it did not log in within %v%s", deadline, said.line())
	}
	return unfitf("it ended (%v) before it had logged in%s", err, said.line())
}
