package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
)

// beAPerson is the argument with which this program runs as a person of another
// run of it. In one process with thousands of agents a person would wait for their
// turns too, and the figures would be of the scheduler.
const beAPerson = "person"

// pace is between the beginnings of a person's calls.
const pace = 100 * time.Millisecond

// person is a process that makes a person's calls.
type person struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startPerson starts the process, which does nothing yet. It ends with ctx at the latest.
func startPerson(ctx context.Context) (*person, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Trace(err)
	}
	p := &person{cmd: exec.CommandContext(ctx, self, beAPerson)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Trace(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Trace(err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<24)
	return p, errors.Annotate(p.cmd.Start(), "cannot start a person")
}

// connect has the person connect, and returns when it is logged in and makes calls.
func (p *person) connect(info api.Info) error {
	if err := json.NewEncoder(p.in).Encode(info); err != nil {
		return errors.Trace(err)
	}
	if !p.out.Scan() {
		return errors.New("the person could not log in")
	}
	return nil
}

// leave ends the calls, and returns how long each took.
func (p *person) leave() ([]time.Duration, error) {
	_ = p.in.Close() // which tells the process
	var took []time.Duration
	if !p.out.Scan() {
		return nil, errors.New("the person's calls failed")
	}
	return took, errors.Trace(json.Unmarshal(p.out.Bytes(), &took))
}

// stop ends the process if it still runs.
func (p *person) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// servePerson is what the process does: it is told on in where to connect, says on
// out when it has, and calls until in ends.
func servePerson(ctx context.Context, in io.Reader, out io.Writer) error {
	commands := json.NewDecoder(in)
	var info api.Info
	if err := commands.Decode(&info); err != nil {
		return errors.Annotate(err, "cannot learn where to connect")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := api.Open(ctx, info, api.DialOptions{PingInterval: time.Hour})
	for err != nil { // among all the agents, it may take more than one try
		if waited := wait(ctx, time.Second); waited != nil {
			return errors.Trace(err)
		}
		conn, err = api.Open(ctx, info, api.DialOptions{PingInterval: time.Hour})
	}
	defer conn.Close() // nothing is under way
	if _, err := io.WriteString(out, "connected\n"); err != nil {
		return errors.Trace(err)
	}
	go func() { // ends with the other process, at the latest
		_, _ = io.Copy(io.Discard, commands.Buffered())
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	took, err := call(ctx, client.New(conn))
	if err != nil {
		return errors.Annotate(err, "cannot call")
	}
	return errors.Trace(json.NewEncoder(out).Encode(took))
}

// call makes a person's calls, one each pace, until ctx is done.
func call(ctx context.Context, c *client.Client) (took []time.Duration, err error) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		at := time.Now()
		if _, err := c.ModelInfo(ctx); err != nil {
			if ctx.Err() != nil {
				return took, nil
			}
			return took, errors.Trace(err)
		}
		took = append(took, time.Since(at))
		select {
		case <-ctx.Done():
			return took, nil
		case <-tick.C:
		}
	}
}
