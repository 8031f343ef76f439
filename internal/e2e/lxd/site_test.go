//go:build e2e

package lxd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/internal/testport"
)

// patience is how long anything may take on a machine that is busy.
const patience = 3 * time.Minute

// programs builds ours, statically, once for all tests, and returns the folder
// that they are in.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(daemon.dir, "bin")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+"/",
		"github.com/slipway-project/slipway/cmd/controllerd",
		"github.com/slipway-project/slipway/cmd/provisionerd",
		"github.com/slipway-project/slipway/cmd/slipway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return dir, nil
})

// process is one of ours that runs.
type process struct {
	name string
	args []string
	log  string // path of its log
	cmd  *exec.Cmd
	done chan struct{}
}

// begin starts the process, again or for the first time.
func (p *process) begin(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	p.done = done
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // it ends by our signal
		close(done)
	}(p.cmd)
}

// end ends the process with a signal.
func (p *process) end(s syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
	<-p.done
}

// site is a controller, a worker, and a model on the LXD daemon.
type site struct {
	*testing.T
	dir, bin, project  string
	lxd                *rest.Client // for the project
	controller, worker process
}

// newSite starts a controller and a worker that has a static agent to give, and
// has the model "default" use a project of its own.
func newSite(t *testing.T) *site {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return newSiteWith(t, "--lxd-agent", filepath.Join(bin, "provisionerd"))
}

// newReadySite is newSite with machines of the image "ready", which holds the
// agent.
func newReadySite(t *testing.T) *site {
	t.Helper()
	if err := importReady(); err != nil {
		t.Fatal(err)
	}
	s := newSiteWith(t)
	s.slipway("model-config", "lxd-image=ready", "lxd-image-has-agent=true")
	return s
}

// importReady makes the image "ready", once: it is "base" with the agent.
var importReady = sync.OnceValue(func() error {
	bin, err := programs()
	if err != nil {
		return err
	}
	return daemon.importImage("ready", filepath.Join(bin, "provisionerd"))
})

// newSiteWith is newSite with other flags for the worker.
func newSiteWith(t *testing.T, flags ...string) *site {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	address := testport.Free(t, 1)[0] // LXD is told where the API is, and not told anew
	s := &site{T: t, dir: dir, bin: bin, project: daemon.project(t)}
	if s.lxd, err = rest.New(rest.Config{Address: daemon.address(), Project: s.project}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.lxd.CloseIdle)
	data := filepath.Join(dir, "site")
	s.controller = process{name: "controllerd", log: filepath.Join(dir, "controllerd.log"), args: []string{
		filepath.Join(bin, "controllerd"), "run", "--data-dir", data,
	}}
	s.worker = process{name: "provisionerd", log: filepath.Join(dir, "provisionerd.log"), args: []string{
		filepath.Join(bin, "provisionerd"), "model", "--agent-file", filepath.Join(data, "agents", "machine-0.yaml"),
		"--lxd-socket", strings.TrimPrefix(daemon.address(), "unix://"),
	}}
	s.worker.args = append(s.worker.args, flags...)
	if out, err := exec.Command(filepath.Join(bin, "controllerd"), "bootstrap", "--data-dir", data, "--listen", address, "--provider", "lxd").CombinedOutput(); err != nil {
		t.Fatalf("bootstrap: %v\n%s", err, out)
	}
	s.controller.begin(t)
	t.Cleanup(func() { s.end(); s.dump() })
	s.until("the controller answers", func() bool { _, err := s.try("machines"); return err == nil })
	s.slipway("model-config", "lxd-image=base", "lxd-cloud-init=false", "lxd-project="+s.project, "provisioner-retry-delay=250ms")
	s.worker.begin(t)
	return s
}

// end ends our processes.
func (s *site) end() {
	s.worker.end(syscall.SIGTERM)
	s.controller.end(syscall.SIGTERM)
}

// dump shows what the processes said, if the test failed.
func (s *site) dump() {
	if !s.Failed() {
		return
	}
	for _, p := range []process{s.controller, s.worker} {
		text, _ := os.ReadFile(p.log)
		s.Logf("%s said at last:\n%s", p.name, text[max(0, len(text)-20000):])
	}
}

// try runs the operator's command.
func (s *site) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "slipway"), args...)
	cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+filepath.Join(s.dir, "site", "client"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("slipway %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// slipway is try in a test.
func (s *site) slipway(args ...string) string {
	s.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// persist is slipway for a controller that may just be away.
func (s *site) persist(args ...string) string {
	s.Helper()
	var out string
	var last error
	defer func() {
		if last != nil {
			s.Log(last)
		}
	}()
	s.until("slipway "+strings.Join(args, " "), func() bool {
		out, last = s.try(args...)
		return last == nil
	})
	return out
}

// until waits for something that nothing tells of.
func (s *site) until(what string, true func() bool) {
	s.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !true() {
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// waitFor waits until machines are in a condition.
func (s *site) waitFor(condition string, ids ...string) {
	s.Helper()
	args := append([]string{"wait", "--for", condition, "--timeout", patience.String()}, ids...)
	s.persist(args...)
}

// add adds a machine and returns its id.
func (s *site) add(args ...string) string {
	s.Helper()
	out := strings.Fields(s.persist(append([]string{"add-machine"}, args...)...))
	if len(out) != 3 {
		s.Fatalf("add-machine says %q", out)
	}
	return out[2]
}

// errNone says that a machine has no container.
var errNone = errors.New("no container")

// container returns the name and the status of a machine's only container.
func (s *site) container(id string) (name, status string, err error) {
	all, err := s.lxd.Instances(s.Context())
	if err != nil {
		return "", "", err
	}
	all = slices.DeleteFunc(all, func(i rest.Instance) bool { return i.Config["user."+environs.TagMachineID] != id })
	switch len(all) {
	case 0:
		return "", "", errNone
	case 1:
		return all[0].Name, all[0].Status, nil
	}
	s.Fatalf("machine %s has %d containers: %v", id, len(all), all)
	return "", "", nil
}

// exec runs a command in a machine's container.
func (s *site) exec(id string, command ...string) (string, error) {
	name, _, err := s.container(id)
	if err != nil {
		return "", err
	}
	return daemon.lxc(append([]string{"exec", "--project", s.project, name, "--"}, command...)...)
}
