package upgrader

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	apiupgrader "github.com/slipway-project/slipway/api/upgrader"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// behaviour says, in the environment, what this test's own program does when it
// is run as an agent.
const behaviour = "SLIPWAY_UPGRADER_TEST"

// TestMain lets the test's program be an agent of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "upgrade" {
		os.Exit(upgradeInProcess(os.Args[2]))
	}
	os.Exit(m.Run())
}

// site is a controller that serves packages and offers a version.
type site struct {
	t      testing.TB
	server *httptest.Server
	ca     string

	mu       sync.Mutex
	packages map[string][]byte // by version
	answer   http.HandlerFunc  // unless it is nil, instead of packages
	tools    []params.Tools
	desired  apiupgrader.Desired
	reported []string
	fetched  int
}

func newSite(t testing.TB) *site {
	t.Helper()
	files, err := tlsfiles.Open(t.TempDir(), []string{"juju-apiserver"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := files.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, ca: files.AuthorityPEM(), packages: make(map[string][]byte)}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) addr() string { return s.server.Listener.Addr().String() }

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.fetched++
	content, answer := s.packages[strings.TrimPrefix(r.URL.Path, "/tools/")], s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // a client that has gone needs none
}

// offer has the site keep a package, and want a version.
func (s *site) offer(version string, content []byte) {
	v, err := binaries.Parse(version)
	if err != nil {
		s.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packages[version] = content
	s.tools = append(s.tools, params.Tools{
		Version: version, URL: "https://elsewhere.example.com/tools/" + version, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content)),
	})
	s.desired = apiupgrader.Desired{Number: v.Number.String()}
}

// answers has the site answer otherwise than with packages; nil ends that.
func (s *site) answers(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetched
}

func (s *site) Watch(context.Context) (watcher.NotifyWatcher, error) { return newFeed(), nil }

func (s *site) Desired(context.Context) (apiupgrader.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desired, nil
}

func (s *site) Tools(context.Context) ([]params.Tools, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []params.Tools
	for _, t := range s.tools {
		if strings.HasPrefix(t.Version, s.desired.Number+"-") {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, errors.NotFoundf("tools")
	}
	return out, nil
}

func (s *site) SetTools(_ context.Context, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported = append(s.reported, version)
	return nil
}

// feed is a watcher with one event.
type feed struct {
	tomb tomb.Tomb
	ch   chan struct{}
}

func newFeed() *feed {
	f := &feed{ch: make(chan struct{}, 1)}
	f.ch <- struct{}{}
	f.tomb.Go(func() error { <-f.tomb.Dying(); return nil })
	return f
}

func (f *feed) Kill()                    { f.tomb.Kill(nil) }
func (f *feed) Wait() error              { return f.tomb.Wait() }
func (f *feed) Changes() <-chan struct{} { return f.ch }

// built returns the content of a program that stands in for an agent.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "slipway-upgrader")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, programName)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Annotatef(err, "cannot build the agent: %s", out)
	}
	return os.ReadFile(path)
})

func program(t testing.TB) []byte {
	t.Helper()
	content, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pack returns a package with one file.
func pack(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zipped)
	err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = archive.Write(content)
	}
	if err == nil {
		err = archive.Close()
	}
	if err == nil {
		err = zipped.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// agent is an agent on a machine: its directory, and the version that runs.
type agent struct {
	t   testing.TB
	dir string
	*Upgrader
}

// lay lays an agent down as providers do, without a version's name.
func lay(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "agent")
	if err := os.MkdirAll(filepath.Join(dir, currentName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, currentName, programName), program(t), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start is what the machine's init does: it starts what is current.
func start(t testing.TB, s *site, dir string, change func(*Config)) *agent {
	t.Helper()
	a, err := open(s.addr(), s.ca, dir, change)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, dir: dir, Upgrader: a}
}

func open(addr, ca, dir string, change func(*Config)) (*Upgrader, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, currentName, programName))
	if err != nil {
		return nil, err
	}
	number, _, ok := strings.Cut(filepath.Base(filepath.Dir(path)), "-")
	if !ok {
		number = "2.0.0"
	}
	cfg := Config{
		Dir: dir, AgentFile: "agent.yaml", Version: number, Deadline: time.Minute, program: path,
		Backoff: worker.Backoff{Min: time.Hour, Max: time.Hour},
		Info: func() (api.Info, error) {
			return api.Info{Addrs: []string{addr}, CACert: ca, Tag: "machine-0"}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// consider has the agent find out what it should run.
func (a *agent) consider(s *site) (problem, error) {
	return (&session{
		Upgrader: a.Upgrader, controller: s, addrs: []string{s.addr()},
		own: binaries.Version{Number: a.own, Series: "jammy", Arch: architecture()},
	}).consider(a.t.Context())
}

// named returns the name of the version of this machine's architecture.
func named(number string) string { return number + "-jammy-" + architecture() }

func (a *agent) wantCurrent(want string) {
	a.t.Helper()
	path, err := filepath.EvalSymlinks(filepath.Join(a.dir, currentName, programName))
	if err != nil {
		a.t.Fatal(err)
	}
	if got := filepath.Base(filepath.Dir(path)); got != want {
		a.t.Errorf("the machine would start version %s, want %s", got, want)
	}
}
