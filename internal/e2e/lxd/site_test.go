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
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
)

// programs builds ours, once for all tests, and returns the folder that they are
// in.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(daemon.dir, "bin")
	return dir, harness.Build(dir, "controllerd", "provisionerd", "slipway")
})

// site is a controller, a worker, and a model on an LXD daemon.
type site struct {
	*testing.T
	server             *lxdDaemon
	dir, bin, project  string
	lxd                *rest.Client // for the project
	controller, worker *harness.Process
}

// newSite starts a controller and a worker that has a static agent to give, and
// has the model "default" use a project of its own.
func newSite(t *testing.T) *site { return newStaticSite(t, daemon) }

// newStaticSite is newSite on some daemon.
func newStaticSite(t *testing.T, server *lxdDaemon) *site {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return newSiteOn(t, server, "--lxd-agent", filepath.Join(bin, "provisionerd"))
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
func newSiteWith(t *testing.T, flags ...string) *site { return newSiteOn(t, daemon, flags...) }

// newSiteOn is newSiteWith on some daemon, and with all programs where that is.
func newSiteOn(t *testing.T, server *lxdDaemon, flags ...string) *site {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	address := testport.Free(t, 1)[0] // LXD is told where the API is, and not told anew
	s := &site{T: t, server: server, dir: t.TempDir(), bin: bin, project: server.project(t)}
	if s.lxd, err = rest.New(rest.Config{Address: server.address(), Project: s.project}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.lxd.CloseIdle)
	data := filepath.Join(s.dir, "site")
	harness.Run(t, nil, filepath.Join(bin, "controllerd"), "bootstrap", "--data-dir", data, "--listen", address, "--provider", "lxd")
	s.controller = s.process("controllerd", "run", "--data-dir", data)
	s.worker = s.process("provisionerd", append([]string{
		"model", "--agent-file", filepath.Join(data, "agents", "machine-0.yaml"),
		"--lxd-socket", strings.TrimPrefix(server.address(), "unix://"),
	}, flags...)...)
	s.controller.Start()
	t.Cleanup(s.controller.End) // in good order: what is done with LXD is done to its end
	s.until("the controller answers", func() bool { _, err := s.try("machines"); return err == nil })
	s.slipway("model-config", "lxd-image=base", "lxd-cloud-init=false", "lxd-project="+s.project, "provisioner-retry-delay=250ms")
	s.worker.Start()
	t.Cleanup(s.worker.End)
	return s
}

// process returns one of our programs, which does not run yet.
func (s *site) process(program string, args ...string) *harness.Process {
	s.Helper()
	return harness.New(s.T, harness.Config{Program: filepath.Join(s.bin, program), Inside: s.server.inside, Args: func() []string { return args }})
}

// try runs the operator's command.
func (s *site) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience+10*time.Second)
	defer cancel()
	line := append(slices.Clone(s.server.inside), filepath.Join(s.bin, "slipway"))
	line = append(line, args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
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
	harness.Eventually(s.T, what, true)
}

// waitFor waits until machines are in a condition.
func (s *site) waitFor(condition string, ids ...string) {
	s.Helper()
	args := append([]string{"wait", "--for", condition, "--timeout", harness.Patience.String()}, ids...)
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
	return s.server.lxc(append([]string{"exec", "--project", s.project, name, "--"}, command...)...)
}
