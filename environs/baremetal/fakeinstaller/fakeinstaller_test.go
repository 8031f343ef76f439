package fakeinstaller_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakeinstaller"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

var content = []byte(strings.Repeat("an image", 512))

// template makes the media of all tests.
var template *media.Template

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run makes the template and runs the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fakeinstaller-*")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		template, err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare makes a template in a folder.
func prepare(dir string) (*media.Template, error) {
	program, err := media.StandIn()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "installer.efi")
	if err := os.WriteFile(path, program, 0o600); err != nil {
		return nil, err
	}
	return media.NewTemplate(path, dir)
}

// controller is as much of a controller as an installer sees.
type controller struct {
	*httptest.Server
	t  *testing.T
	ca string

	mu       sync.Mutex
	config   config.MachineConfig
	token    string // "": used
	whole    bool   // media are served in one piece only
	served   int64  // bytes of media
	statuses []config.Status
	kept     map[string]string

	reported chan config.Status // each status, while there is room
}

func newController(t *testing.T) *controller {
	t.Helper()
	c := &controller{t: t, token: "secret", kept: map[string]string{}, reported: make(chan config.Status, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", c.exchange)
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(c.config)
	})
	mux.HandleFunc("POST /status", func(_ http.ResponseWriter, r *http.Request) {
		var s config.Status
		_ = json.NewDecoder(r.Body).Decode(&s)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.statuses = append(c.statuses, s)
		select {
		case c.reported <- s:
		default:
		}
	})
	for _, name := range []string{"inventory", "health", "log", "heartbeat"} {
		mux.HandleFunc("POST /"+name, func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.kept[name] += string(b)
		})
	}
	mux.HandleFunc("GET /image", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	})
	mux.HandleFunc("GET /iso", func(w http.ResponseWriter, r *http.Request) { c.medium(w, r, template.ISO) })
	mux.HandleFunc("GET /efi", func(w http.ResponseWriter, r *http.Request) { c.medium(w, r, template.Program) })
	c.Server = httptest.NewTLSServer(mux)
	t.Cleanup(c.Close)
	c.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	c.config = config.MachineConfig{Host: "h1", Mode: config.ModeProvision, Inventory: true,
		Image: config.Image{URLs: []string{c.URL + "/image"}, Checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(content))}}
	return c
}

// exchange takes the token once.
func (c *controller) exchange(w http.ResponseWriter, r *http.Request) {
	var e config.Exchange
	_ = json.NewDecoder(r.Body).Decode(&e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == "" || string(e.Token) != c.token || e.Host != "h1-uid" || e.Boot != 3 || !ed25519.Verify(e.PublicKey, e.Message(), e.Signature) {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	c.token = ""
	_, _ = io.WriteString(w, `{"credential":"x"}`)
}

// medium serves a medium of the one host.
func (c *controller) medium(w http.ResponseWriter, r *http.Request, open func(config.Boot) (*media.Medium, error)) {
	m, err := open(config.Boot{Server: c.URL, CA: c.ca, Host: "h1-uid", Number: 3, Token: "secret"})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer func() { _ = m.Close() }()
	c.mu.Lock()
	if c.whole {
		r.Header.Del("Range")
	}
	c.mu.Unlock()
	http.ServeContent(&counted{w, c}, r, "", m.ModTime(), m)
}

// counted counts what is sent of media.
type counted struct {
	http.ResponseWriter
	c *controller
}

func (w *counted) Write(p []byte) (int, error) {
	w.c.mu.Lock()
	w.c.served += int64(len(p))
	w.c.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// fetched returns how many bytes of media were.
func (c *controller) fetched() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served
}

// has reports whether a report of a kind has a text in it.
func (c *controller) has(kind, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.kept[kind], text)
}

// told returns what was reported: the steps that were done, and the last status.
func (c *controller) told() (steps string, last config.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var done []string
	for _, s := range c.statuses {
		if s.Result == "done" {
			done = append(done, s.Step)
		}
		last = s
	}
	return strings.Join(done, " "), last
}

// machine is a machine with nothing on its disk, behind a BMC of its own.
func machine(t *testing.T) *fakebmc.System {
	t.Helper()
	b, err := fakebmc.New(fakebmc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // its machine is in memory
	return b.System(0)
}

// boots has a machine boot.
func (c *controller) boots(o fakeinstaller.Options, s *fakebmc.System, source fakebmc.BootSource, path string) fakebmc.End {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	o.Media, o.Pause = c.Client(), time.Millisecond
	return fakeinstaller.New(o).Boot(ctx, s, fakebmc.Boot{Source: source, URL: c.URL + path})
}

func TestAMachineIsInstalled(t *testing.T) {
	for path, source := range map[string]fakebmc.BootSource{"/iso": fakebmc.BootCd, "/efi": fakebmc.BootHTTP} {
		t.Run(string(source), func(t *testing.T) {
			c, s := newController(t), machine(t)
			if end := c.boots(fakeinstaller.Options{}, s, source, path); end != fakebmc.GoesOff {
				t.Errorf("the machine leaves with %v, want off", end)
			}
			steps, last := c.told()
			if want := "collect-inventory health-checks detect-disk verify-image wipe-disk stream-image create-efi-boot-entry"; steps != want || last.State != config.StateSuccess {
				t.Errorf("steps %q, then %+v; want %q and success", steps, last, want)
			}
			if !strings.Contains(string(last.Facts), s.Hardware().Disks[0].Serial) || s.Disk() != c.URL+"/image" {
				t.Errorf("facts %s, disk %q", last.Facts, s.Disk())
			}
			for kind, want := range map[string]string{"inventory": s.MAC(), "health": "pass", "log": "order for h1: provision"} {
				if !c.has(kind, want) {
					t.Errorf("%s lacks %q", kind, want)
				}
			}
			if n := c.fetched(); n == 0 || n > 256<<10 {
				t.Errorf("%d bytes of the medium were fetched, want a few pieces", n)
			}
		})
	}
}

func TestAMachineIsWiped(t *testing.T) {
	for mode, want := range map[config.Mode]string{config.ModeDeprovision: "wipe-all-disks remove-efi-entries", config.ModeSoftDeprovision: "remove-efi-entries"} {
		c, s := newController(t), machine(t)
		s.SetDisk("something")
		c.config = config.MachineConfig{Host: "h1", Mode: mode}
		if end := c.boots(fakeinstaller.Options{Failures: 1}, s, fakebmc.BootCd, "/iso"); end != fakebmc.GoesOff {
			t.Errorf("%s: the machine leaves with %v, want off", mode, end)
		}
		if steps, last := c.told(); steps != want || last.State != config.StateSuccess || s.Disk() != "" {
			t.Errorf("%s: steps %q, then %+v, disk %q; want %q and success", mode, steps, last, s.Disk(), want)
		}
	}
}

func TestWhatGoesWrongIsReported(t *testing.T) {
	failing := fakeinstaller.Options{Failures: 1, Seed: 5}
	bad, ok := failing.Fails(0)
	if !ok {
		t.Fatal("no machine fails although all are to")
	}
	for name, test := range map[string]struct {
		o       fakeinstaller.Options
		change  func(*config.MachineConfig)
		step    string
		message string
	}{
		"fault":    {failing, func(*config.MachineConfig) {}, bad, "a simulated fault"},
		"checksum": {fakeinstaller.Options{}, func(m *config.MachineConfig) { m.Image.Checksum = "sha256:" + strings.Repeat("0", 64) }, "stream-image", "image is not what was ordered"},
		"no image": {fakeinstaller.Options{}, func(m *config.MachineConfig) { m.Image.URLs[0] += "/none" }, "verify-image", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := newController(t), machine(t)
			test.change(&c.config)
			if end := c.boots(test.o, s, fakebmc.BootCd, "/iso"); end != fakebmc.Restarts {
				t.Errorf("the machine leaves with %v, want a restart", end)
			}
			if _, last := c.told(); last.State != config.StateError || last.Step != test.step || !strings.Contains(last.Message, test.message) || s.Disk() != "" {
				t.Errorf("last status %+v, disk %q; want step %s with %q", last, s.Disk(), test.step, test.message)
			}
		})
	}
}

func TestWhatIsNoMediumOfOursStartsNothing(t *testing.T) {
	c, s := newController(t), machine(t)
	for path, source := range map[string]fakebmc.BootSource{"/image": fakebmc.BootCd, "/none": fakebmc.BootCd, "/log": fakebmc.BootHTTP, "": fakebmc.BootNone, "/x": fakebmc.BootPxe} {
		if end := c.boots(fakeinstaller.Options{}, s, source, path); end != fakebmc.Stays {
			t.Errorf("%q: the machine leaves with %v, want it to stay", path, end)
		}
	}
	c.mu.Lock()
	c.whole = true
	c.mu.Unlock()
	if end := c.boots(fakeinstaller.Options{}, s, fakebmc.BootCd, "/iso"); end != fakebmc.Stays {
		t.Errorf("a server that gives no parts: %v", end)
	}
	c.mu.Lock()
	c.whole, c.token = false, ""
	c.mu.Unlock()
	if end := c.boots(fakeinstaller.Options{}, s, fakebmc.BootCd, "/iso"); end != fakebmc.GoesOff {
		t.Errorf("a machine whose token is used leaves with %v, want off", end)
	}
	if steps, last := c.told(); steps != "" || last.State != "" {
		t.Errorf("machines without an order have reported %q, %+v", steps, last)
	}
}

// Whatever the URL leads to may claim to have any length; this says that a program has two
// gigabytes of names in it, and sends them.
func TestAnEndlessMediumIsGivenUp(t *testing.T) {
	head := bytes.Repeat([]byte{0x7f}, 512)
	copy(head, "MZ")
	head[0x3c], head[0x3d], head[0x3e], head[0x3f] = 0x80, 0, 0, 0
	copy(head[0x80:], "PE\x00\x00\x64\x86\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00")
	var sent atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
			t.Error(err)
		}
		piece := bytes.Repeat([]byte{0x7f}, int(to-from+1))
		if from == 0 {
			copy(piece, head)
		}
		w.WriteHeader(http.StatusPartialContent)
		n, _ := w.Write(piece)
		sent.Add(int64(n))
	}))
	t.Cleanup(server.Close)
	c := &controller{Server: server, t: t}
	if end := c.boots(fakeinstaller.Options{}, machine(t), fakebmc.BootHTTP, "/endless"); end != fakebmc.Stays {
		t.Errorf("the machine leaves with %v, want it to stay", end)
	}
	if n := sent.Load(); n < 1<<20 || n > 4<<20 {
		t.Errorf("%d bytes were fetched, want more than 1 MiB and at most 4", n)
	}
}

func TestAMachineThatIsSwitchedOffReportsNoMore(t *testing.T) {
	c, s := newController(t), machine(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan fakebmc.End)
	i := fakeinstaller.New(fakeinstaller.Options{Media: c.Client(), Time: time.Hour})
	go func() { ended <- i.Boot(ctx, s, fakebmc.Boot{Source: fakebmc.BootCd, URL: c.URL + "/iso"}) }()
	if first := <-c.reported; first.State != config.StateInit {
		t.Errorf("the first report is %+v", first)
	}
	cancel()
	if end := <-ended; end != fakebmc.Stays {
		t.Errorf("the machine leaves with %v", end)
	}
	if steps, last := c.told(); steps != "" || last.State != config.StateInit {
		t.Errorf("after the power was cut: %q, %+v", steps, last)
	}
}

func TestAnInstalledSystemRunsItsAgent(t *testing.T) {
	c, s := newController(t), machine(t)
	agent, err := json.Marshal("tag: machine-7\npassword: hush\nnonce: n\nmodel-uuid: deadbeef-0bad-400d-8000-000000000001\napi-addresses: ['10.0.0.1:17070']\nca-cert: " + fmt.Sprintf("%q", c.ca) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ data, want string }{
		"agent":    {"#cloud-config\nwrite_files: [{path: /etc/motd, content: x}, {path: /var/lib/slipway/agent.yaml, content: " + string(agent) + "}]\n", "7 10.0.0.1:17070 198.18.0.0"},
		"none":     {"#cloud-config\npackages: [jq]\n", ""},
		"half one": {"#cloud-config\nwrite_files: [{path: /var/lib/slipway/agent.yaml, content: 'tag: machine-7'}]\n", ""},
		"no YAML":  {"\t", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.mu.Lock()
			c.token, c.config.CloudInit = "secret", &config.CloudInit{UserData: config.Secret(test.data)}
			c.mu.Unlock()
			got := ""
			i := fakeinstaller.New(fakeinstaller.Options{Media: c.Client(), Agent: func(_ context.Context, a simulated.Agent) error {
				got = fmt.Sprint(a.MachineID, " ", a.APIAddresses[0], " ", a.Addresses[0].Value)
				return nil
			}})
			if end := i.Boot(t.Context(), s, fakebmc.Boot{Source: fakebmc.BootCd, URL: c.URL + "/iso"}); end != fakebmc.GoesOff {
				t.Fatalf("the machine leaves with %v", end)
			}
			if end := i.Boot(t.Context(), s, fakebmc.Boot{Source: fakebmc.BootHdd}); end != fakebmc.Stays || got != test.want {
				t.Errorf("agent %q, then %v; want %q", got, end, test.want)
			}
		})
	}
}

func TestWhoFailsFollowsFromTheSeed(t *testing.T) {
	o := fakeinstaller.Options{Failures: 0.05, Seed: 7}
	n := 0
	for i := range 10_000 {
		step, fails := o.Fails(i)
		again, _ := o.Fails(i)
		if step != again || fails == (step == "") {
			t.Fatalf("machine %d fails in %q, and then in %q", i, step, again)
		}
		if fails {
			n++
		}
	}
	if n < 400 || n > 600 {
		t.Errorf("%d of 10000 machines fail, want 500", n)
	}
	if _, fails := (fakeinstaller.Options{Seed: 7}).Fails(3); fails {
		t.Error("a machine fails although none is to")
	}
}
