//go:build e2e

package upgrade_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/params"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a function is content. It looks again and again, since
// what it looks at is in other processes.
func eventually(t testing.TB, what string, content func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !content(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// builds are the programs that have been built, by package and flags.
var builds sync.Map

// build builds a program, once, and returns its content.
func build(t testing.TB, pkg, flags string) []byte {
	t.Helper()
	once, _ := builds.LoadOrStore(pkg+" "+flags, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "slipway-upgrade")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "program")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags="+flags, "-o", path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
		return os.ReadFile(path)
	}))
	content, err := once.(func() ([]byte, error))()
	must(t, err)
	return content
}

const module = "github.com/slipway-project/slipway/"

// agentVersion builds an agent of some version.
func agentVersion(t testing.TB, version string) []byte {
	return build(t, module+"cmd/provisionerd", "-X "+module+"internal/buildinfo.Version="+version)
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

// start starts a process that ends with the test.
func start(t testing.TB, out *output, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }() // it is killed
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what it has started
		<-done
		if t.Failed() {
			said := out.String()
			t.Logf("%s said:\n%s", args[0], said[max(0, len(said)-4000):])
		}
	})
	return cmd
}

// site is a controller with one machine, on whose disk its agent is.
type site struct {
	testing.TB
	info api.Info // of the first user, in the default model
	conn *api.Conn
	id   string // of the machine
	init *exec.Cmd
	disk string // the machine's, as this process sees it
}

// What a machine runs, given the command line of its agent: an init that starts the
// agent whenever it ends, or the agent itself as the first process.
const (
	restarting = "while :; do %s & wait $!; done"
	alone      = "exec unshare --pid --fork --kill-child %s"
)

// newSite starts a controller, and a machine with an agent that is started again.
func newSite(t testing.TB, first []byte) *site { return newSiteOf(t, restarting, first) }

// newSiteOf is newSite with another way to run the agent.
func newSiteOf(t testing.TB, running string, first []byte) *site {
	t.Helper()
	dir, s := t.TempDir(), &site{TB: t}
	controllerd := filepath.Join(dir, "controllerd")
	must(t, os.WriteFile(controllerd, build(t, module+"cmd/controllerd", ""), 0o755))
	data := filepath.Join(dir, "site")
	if out, err := exec.Command(controllerd, "bootstrap", "--data-dir", data, "--listen", "127.0.0.1:0").CombinedOutput(); err != nil {
		t.Fatalf("bootstrap: %v\n%s", err, out)
	}
	var said output
	start(t, &said, controllerd, "run", "--data-dir", data)
	var addr string
	eventually(t, "the controller is ready", func() bool {
		_, after, _ := strings.Cut(said.String(), "ready ")
		line, _, whole := strings.Cut(after, "\n")
		addr = line
		return whole
	})
	known, err := clientstore.New(filepath.Join(data, "client")).Read()
	must(t, err)
	c, account := known.Controllers[known.Current], known.Accounts[known.Current]
	s.info = api.Info{
		Addrs: []string{addr}, CACert: c.CACert, Tag: "user-" + account.User, Password: account.Password,
		ModelUUID: known.Models[known.Current].Models["admin/default"].UUID,
	}
	s.conn, err = api.Open(t.Context(), s.info, api.DialOptions{})
	must(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	// Nothing is ever started there: the test is the provisioner.
	must(t, modelconfig.New(s.conn).Set(t.Context(), map[string]any{"rack-url": "http://127.0.0.1:1", "rack-token": "none"}))
	s.boot(s.provision(filepath.Join(data, "agents", "machine-0.yaml")), running, first)
	return s
}

// provision adds a machine and does what a provisioner would, short of starting
// an instance. It returns what the machine's agent has to know.
func (s *site) provision(worker string) agentfile.File {
	s.Helper()
	ctx := s.Context()
	added, err := client.New(s.conn).AddMachines(ctx, params.AddMachineParams{Jobs: []string{"JobHostUnits"}, Series: "jammy"})
	must(s, err)
	must(s, added[0].Err)
	s.id = added[0].Value
	file, err := agentfile.Read(worker)
	must(s, err)
	info := file.Info()
	info.ModelUUID, info.Addrs = s.info.ModelUUID, s.info.Addrs
	conn, err := api.Open(ctx, info, api.DialOptions{})
	must(s, err)
	defer conn.Close()
	_, err = singular.New(singular.Config{
		Caller: conn, Entity: api.ModelTag(s.info.ModelUUID), Claimant: file.Tag, Session: "test", Duration: time.Minute,
	}).Claim(ctx)
	must(s, err)
	p := provisioner.New(conn)
	password := strings.Repeat("p", 32)
	errs, err := p.SetPasswords(ctx, provisioner.Password{ID: s.id, Password: params.Secret(password)})
	must(s, err)
	must(s, errs[0])
	errs, err = p.SetInstanceInfo(ctx, provisioner.Instance{MachineID: s.id, ID: "i-0", Nonce: "nonce"})
	must(s, err)
	must(s, errs[0])
	return agentfile.File{
		Tag: api.MachineTag(s.id), Password: password, Nonce: "nonce", ModelUUID: s.info.ModelUUID, APIAddresses: s.info.Addrs, CACert: s.info.CACert,
	}
}

// diskSize is how much room the machine has, in megabytes.
const diskSize = 400

// boot lays an agent down on a disk of its own, and runs it.
func (s *site) boot(file agentfile.File, running string, first []byte) {
	s.Helper()
	image, disk := s.TempDir(), s.TempDir()
	must(s, os.MkdirAll(filepath.Join(image, "agent", "current"), 0o755))
	must(s, os.WriteFile(filepath.Join(image, "agent", "current", "provisionerd"), first, 0o755))
	must(s, os.WriteFile(filepath.Join(image, "deadline"), []byte("1m"), 0o600))
	must(s, agentfile.Write(filepath.Join(image, "agent.yaml"), file))
	agent := fmt.Sprintf("%[1]s/agent/current/provisionerd machine --agent-file %[1]s/agent.yaml --upgrade-deadline $(cat %[1]s/deadline) --lxd-socket %[1]s/none", disk)
	script := fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=700 tmpfs %[2]s && cp -a %[3]s/. %[2]s/ || exit 1\n", diskSize, disk, image) + fmt.Sprintf(running, agent)
	var said output
	s.init = start(s, &said, "unshare", "-m", "sh", "-c", script)
	s.disk = fmt.Sprintf("/proc/%d/root%s", s.init.Process.Pid, disk)
}

// deadline starts the agent anew, with another deadline for versions to log in.
func (s *site) deadline(d string) {
	s.Helper()
	must(s, os.WriteFile(filepath.Join(s.disk, "deadline"), []byte(d), 0o600))
	before := s.pid()
	must(s, syscall.Kill(before, syscall.SIGKILL))
	eventually(s, "init has started the agent again", func() bool {
		pid := s.pid()
		return pid != 0 && pid != before
	})
}

// offer uploads a version and has agents run it.
func (s *site) offer(version string, program []byte, downgrade bool) {
	s.Helper()
	if program != nil {
		content := pack(s, program)
		_, err := api.UploadBinary(s.Context(), s.info, api.Upload{
			Version: version + "-jammy-" + runtime.GOARCH, Content: bytes.NewReader(content), Size: int64(len(content)),
		})
		must(s, err)
	}
	must(s, client.New(s.conn).SetModelAgentVersion(s.Context(), version, downgrade))
}

// pack returns the package of a program.
func pack(t testing.TB, program []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	must(t, err)
	archive := tar.NewWriter(zipped)
	must(t, archive.WriteHeader(&tar.Header{Name: "provisionerd", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}))
	_, err = archive.Write(program)
	must(t, err)
	must(t, archive.Close())
	must(t, zipped.Close())
	return out.Bytes()
}

// agent returns what the controller says of the machine's agent.
func (s *site) agent() params.DetailedStatus {
	s.Helper()
	full, err := client.New(s.conn).FullStatus(context.Background(), s.id)
	must(s, err)
	return full.Machines[s.id].AgentStatus
}

// runs waits until the agent has logged in as some version, and is well.
func (s *site) runs(version string) {
	s.Helper()
	eventually(s, "version "+version+" runs", func() bool {
		a := s.agent()
		return a.Version == version+"-jammy-"+runtime.GOARCH && a.Status == "started" && a.Info == ""
	})
	eventually(s, "the machine would start "+version, func() bool {
		link, err := os.Readlink(filepath.Join(s.disk, "agent", "current", "provisionerd"))
		return err == nil && link == "../"+version+"-jammy-"+runtime.GOARCH+"/provisionerd"
	})
}

// says waits until the machine's status has a text.
func (s *site) says(text string) {
	s.Helper()
	eventually(s, "the status says "+text, func() bool {
		a := s.agent()
		return a.Status == "started" && strings.Contains(a.Info, text)
	})
	s.Logf("the status says: %s", s.agent().Info)
}

// pid returns the process of the agent, 0 if there is none.
func (s *site) pid() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.init.Process.Pid))
	if err != nil {
		return 0
	}
	for _, child := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(child); err == nil {
			if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), "machine") {
				return pid
			}
		}
	}
	return 0
}
