package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// readyTimeout is how long a program may take until it serves.
const readyTimeout = time.Minute

// tick is the unit in which Linux tells CPU time, on all of its architectures.
const tick = 10 * time.Millisecond

// process is a program that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // file that has what it said
	done chan struct{} // closed when it has ended
}

// start starts a program. What it says goes to a file beside the site.
func (b *bench) start(name, program string, args ...string) (*process, *bufio.Scanner, error) {
	p := &process{name: name, log: filepath.Join(b.dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	defer log.Close()
	p.cmd = exec.Command(filepath.Join(b.programs, program), args...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, nil, errors.Annotatef(err, "cannot start %s", program)
	}
	lines := bufio.NewScanner(out)
	return p, lines, nil
}

// serve starts a program and waits until it says where it serves.
func (b *bench) serve(ctx context.Context, name, program string, args ...string) (*process, string, error) {
	return b.until(ctx, "ready ", name, program, args...)
}

// until starts a program and waits until it says a line with a beginning, whose rest it
// returns.
func (b *bench) until(ctx context.Context, beginning, name, program string, args ...string) (*process, string, error) {
	p, lines, err := b.start(name, program, args...)
	if err != nil {
		return nil, "", errors.Trace(err)
	}
	ready := make(chan string, 1)
	go func() { // ends with the process, whose output ends then
		defer close(p.done)
		for lines.Scan() {
			if address, ok := strings.CutPrefix(lines.Text(), beginning); ok {
				ready <- address
			}
		}
		_ = p.cmd.Wait() // it is stopped, most often
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case address := <-ready:
		return p, address, nil
	case <-p.done:
		return nil, "", errors.Errorf("%s ended: %s", name, p.tail())
	case <-ctx.Done():
		p.stop()
		return nil, "", errors.Errorf("%s is not ready in time: %s", name, p.tail())
	}
}

// work starts a program that serves nothing.
func (b *bench) work(name, program string, args ...string) (*process, error) {
	p, lines, err := b.start(name, program, args...)
	if err != nil {
		return nil, errors.Trace(err)
	}
	go func() { // ends with the process
		defer close(p.done)
		for lines.Scan() {
		}
		_ = p.cmd.Wait() // it is stopped, most often
	}()
	return p, nil
}

// stop asks the process to end, and waits until it has.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last line that the process said.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// cpu returns the CPU time that the process has used; 0 once it has ended.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	d, err := parseCPU(string(text))
	if err != nil {
		return 0
	}
	return d
}

// parseCPU returns user and system time of a line of /proc/PID/stat. The name
// of the program, the second field, is in parentheses and may hold anything.
func parseCPU(stat string) (time.Duration, error) {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.NotValidf("process status %q", stat)
	}
	var sum time.Duration
	for _, f := range fields[11:13] { // fields 14 and 15 of the line
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, errors.NotValidf("process status %q", stat)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// memory returns the resident memory of the process, in MiB; 0 once it has ended.
func (p *process) memory() float64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err == nil {
				return n / 1024
			}
		}
	}
	return 0
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load returns the machine's load averages.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
