package upgrader

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	apiupgrader "github.com/slipway-project/slipway/api/upgrader"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/worker"
)

// job is what an agent in a process of its own does.
type job struct {
	Step    string // where it stops until it is killed; empty means nowhere
	Back    bool   // it goes back, instead of looking for a new version
	Dir     string
	Addr    string
	CA      string
	Desired string
	Tools   []params.Tools
}

// upgradeInProcess is such an agent.
func upgradeInProcess(text string) int {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	var u *Upgrader
	if err == nil {
		u, err = open(j.Addr, j.CA, j.Dir, func(c *Config) {
			c.at = func(step string) {
				if step == j.Step {
					fmt.Println("at", step)
					select {}
				}
			}
		})
	}
	if err == nil {
		err = u.Begin()
	}
	var p problem
	if err == nil && j.Back {
		err = u.GoBack("the test says so")
	}
	if err == nil {
		p, err = (&session{
			Upgrader: u, controller: &site{tools: j.Tools, desired: apiupgrader.Desired{Number: j.Desired}}, addrs: []string{j.Addr},
			own: binaries.Version{Number: u.own, Series: "jammy", Arch: architecture()},
		}).consider(context.Background())
	}
	if errors.Is(err, worker.ErrRestart) {
		fmt.Println("restart")
		return 0
	}
	fmt.Println("error:", err, p.text)
	return 1
}

// run runs an agent and returns the first line that it says. If that is a step,
// it is killed there.
func (j job) run(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own(t), "upgrade", string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.HasPrefix(line, "at ") {
		_ = cmd.Process.Kill() // it is there: it waits
	}
	_ = cmd.Wait() // it was killed, or has said how it went
	if err != nil {
		t.Fatalf("step %s: the agent said %q, %v", j.Step, line, err)
	}
	return strings.TrimSpace(line)
}

// TestKilledAtAnyStep kills agents in the middle of an upgrade. What init would
// start must be a version that works, and must finish the upgrade.
func TestKilledAtAnyStep(t *testing.T) {
	for _, step := range []string{"fetch", "keep", "trial", "switch", "switched"} {
		t.Run(step, func(t *testing.T) {
			s, dir := newSite(t), lay(t)
			s.offer(named("2.0.1"), pack(t, programName, program(t)))
			j := job{Step: step, Dir: dir, Addr: s.addr(), CA: s.ca, Desired: "2.0.1", Tools: s.tools}
			if got := j.run(t); got != "at "+step {
				t.Fatalf("the agent said %q, want to kill it at %q", got, step)
			}
			version(t, dir)
			if step == "switched" {
				start(t, s, dir, nil).wantCurrent(named("2.0.1"))
				return
			}
			j.Step = ""
			if got := j.run(t); got != "restart" {
				t.Fatalf("the next time the agent said %q", got)
			}
			start(t, s, dir, nil).wantCurrent(named("2.0.1"))
		})
	}
}

// TestKilledInTheMiddleOfADownload does so while half of the package is there.
func TestKilledInTheMiddleOfADownload(t *testing.T) {
	s, dir := newSite(t), lay(t)
	content := pack(t, programName, program(t))
	s.offer(named("2.0.1"), content)
	half, release := make(chan struct{}), make(chan struct{})
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		close(half)
		<-release
	})
	text, err := json.Marshal(job{Dir: dir, Addr: s.addr(), CA: s.ca, Desired: "2.0.1", Tools: s.tools})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own(t), "upgrade", string(text))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-half:
	case <-time.After(time.Minute):
		t.Error("the agent has not asked for the package within a minute")
	}
	_ = cmd.Process.Kill() // it is there: it waits for the rest
	_ = cmd.Wait()         // it was killed
	close(release)
	if part, err := filepath.Glob(filepath.Join(dir, "*"+partSuffix)); err != nil || len(part) != 1 {
		t.Fatalf("%v are left, %v, want half a version", part, err)
	}
	version(t, dir)
	s.answers(nil)
	if got := (job{Dir: dir, Addr: s.addr(), CA: s.ca, Desired: "2.0.1", Tools: s.tools}).run(t); got != "restart" {
		t.Fatalf("the next time the agent said %q", got)
	}
	start(t, s, dir, nil).wantCurrent(named("2.0.1"))
}

// TestKilledWhileGoingBack does so between the note that a version is bad and
// the change of the link.
func TestKilledWhileGoingBack(t *testing.T) {
	s, dir := newSite(t), lay(t)
	replaced(t, s, dir, nil)
	back := job{Step: "back", Back: true, Dir: dir, Addr: s.addr(), CA: s.ca}
	if got := back.run(t); got != "at back" {
		t.Fatalf("the agent said %q", got)
	}
	start(t, s, dir, nil).wantCurrent(named("2.0.1"))
	// It is bad, and runs: the starts that are left are used up, and then it
	// goes back.
	for i := 0; ; i++ {
		err := start(t, s, dir, nil).Begin()
		if errors.Is(err, worker.ErrRestart) {
			break
		}
		if err != nil || i > maxStarts {
			t.Fatalf("start %d: %v", i, err)
		}
	}
	wantBack(t, s, dir, "it was started 3 times")
}

// version fails unless what init would start runs.
func version(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(dir, currentName, programName), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "provisionerd ") {
		t.Fatalf("what the machine would start says %q, %v", out, err)
	}
}

// own returns the path of this test's program.
func own(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
