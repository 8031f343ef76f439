package main

// The installer is one program without an exported name, so its test is inside.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk/disktest"
	"github.com/slipway-project/slipway/provision/netup"
	"github.com/slipway-project/slipway/provision/pid1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// kernel does nothing.
type kernel struct{ clock int }

func (*kernel) Mount(string, string, string, string) error { return nil }
func (*kernel) LoadModule(string) error                    { return nil }
func (k *kernel) SetClock(time.Time) error                 { k.clock++; return nil }
func (*kernel) End(pid1.End) error                         { return nil }

// links is a network that works, or does not.
type links struct{ broken bool }

func (l links) Ports() ([]netup.Port, error) {
	return []netup.Port{{Name: "eth0", MAC: "52:54:00:00:00:01", Link: true}}, nil
}
func (links) Up(string, int) error                          { return nil }
func (links) Make(netup.Virtual) error                      { return nil }
func (links) Assign(string, netip.Prefix, netip.Addr) error { return nil }
func (l links) DHCP(ctx context.Context, _ string) (netup.Lease, error) {
	if l.broken {
		return netup.Lease{}, errors.New("nobody answers")
	}
	return netup.Lease{Address: netip.MustParsePrefix("192.0.2.5/24"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}, nil
}

// controller answers as the real one would.
type controller struct {
	*httptest.Server
	cfg   config.MachineConfig
	image []byte
	deny  string // path that is refused

	mu       sync.Mutex
	paths    []string
	statuses []config.Status
	log      []string
}

func newController(t *testing.T) *controller {
	c := &controller{image: bytes.Repeat([]byte("image"), 1000)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.URL.Path)
	switch {
	case r.URL.Path == c.deny:
		w.WriteHeader(http.StatusGone)
	case r.URL.Path == "/token":
		_, _ = io.WriteString(w, `{"credential":"c"}`)
	case r.URL.Path == "/config":
		_ = json.NewEncoder(w).Encode(c.cfg)
	case r.URL.Path == "/image":
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.image))
	case r.URL.Path == "/status":
		var s config.Status
		_ = json.NewDecoder(r.Body).Decode(&s)
		c.statuses = append(c.statuses, s)
	case r.URL.Path == "/log":
		var lines []string
		_ = json.NewDecoder(r.Body).Decode(&lines)
		c.log = append(c.log, lines...)
	}
}

// setUp returns an installer of a made machine with a boot file in its initramfs.
func setUp(t *testing.T, c *controller, boot *config.Boot) (*installer, *disktest.Machine) {
	t.Helper()
	for _, name := range []string{"PATH", "DM_DISABLE_UDEV"} { // put back when the test ends
		t.Setenv(name, os.Getenv(name))
	}
	m := disktest.New(t)
	m.AddDisk("sda", 2<<30, map[string]string{"serial": "DISK1"})
	root := filepath.Join(m.Dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if boot == nil {
		boot = &config.Boot{Server: c.URL, Host: "h", Number: 1, Token: "planted-token"}
	}
	b, err := json.Marshal(boot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "slipway.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = loggo.ReplaceDefaultWriter(loggo.NewSimpleWriter(os.Stderr, loggo.DefaultFormatter)) })
	return &installer{
		root: root, kernel: &kernel{}, links: links{}, disks: m.Config(), reap: func(int) {}, quick: 50 * time.Millisecond,
		shell: func(context.Context) error { m.Note("shell"); return nil },
	}, m
}

func order(c *controller) config.MachineConfig {
	return config.MachineConfig{
		Host: "h", Health: config.Health{Disabled: true},
		Image: config.Image{URLs: []string{c.URL + "/image"}, Checksum: fmt.Sprintf("%x", sha256.Sum256(c.image))},
	}
}

func TestInstall(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(c *controller, i *installer)
		boot *config.Boot
		end  pid1.End
		last string // state and step of the last status
		log  string // in what the machine did
	}{
		{name: "deprovision switches off", edit: func(c *controller, _ *installer) { c.cfg.Mode = config.ModeDeprovision }, end: pid1.PowerOff, last: "success "},
		{name: "dry run switches off", edit: func(c *controller, _ *installer) { c.cfg.Mode = config.ModeDryRun }, end: pid1.PowerOff, last: "success "},
		{name: "an image without a system restarts", edit: func(*controller, *installer) {}, end: pid1.Reboot, last: "error parse-partitions"},
		{name: "a failure with a rescue shell", edit: func(c *controller, _ *installer) { c.cfg.Rescue.Mode = config.RescueShell }, end: pid1.Reboot, last: "error parse-partitions", log: "shell"},
		{name: "a failure that waits does not wait for ever", edit: func(c *controller, _ *installer) {
			c.cfg.Rescue = config.Rescue{Mode: config.RescueWait, Timeout: time.Hour}
		}, end: pid1.Reboot, last: "error parse-partitions"},
		{name: "a failure that is tried again", edit: func(c *controller, _ *installer) { c.cfg.Rescue.Mode = config.RescueRetry }, end: pid1.Reboot, last: "error parse-partitions"},
		{name: "a used token switches off", edit: func(c *controller, _ *installer) { c.deny = "/token" }, end: pid1.PowerOff},
		{name: "a withdrawn order switches off", edit: func(c *controller, _ *installer) { c.deny = "/status" }, end: pid1.PowerOff},
		{name: "a config that makes no sense restarts", edit: func(c *controller, _ *installer) { c.cfg.Finish = "halt" }, end: pid1.Reboot},
		{name: "no network restarts", edit: func(_ *controller, i *installer) { i.links = links{broken: true} }, boot: &config.Boot{Server: "http://127.0.0.1:1", Host: "h", Token: "t", Network: config.Network{Timeout: 1}}, end: pid1.Reboot},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newController(t)
			c.cfg = order(c)
			i, m := setUp(t, c, tc.boot)
			tc.edit(c, i)
			if end := i.install(t.Context()); end != tc.end {
				t.Errorf("install = %d, want %d", end, tc.end)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if tc.last != "" {
				if len(c.statuses) == 0 {
					t.Fatal("nothing was reported")
				}
				s := c.statuses[len(c.statuses)-1]
				if got := string(s.State) + " " + s.Step; got != tc.last {
					t.Errorf("last status %q, want %q: %s", got, tc.last, s.Message)
				}
			}
			if log := strings.Join(m.Log(), "\n"); !strings.Contains(log, tc.log) {
				t.Errorf("the machine did:\n%s", log)
			}
			if all := strings.Join(c.log, "\n"); strings.Contains(all, "planted") {
				t.Errorf("the token is in the shipped log:\n%s", all)
			}
		})
	}
}

func TestRetryRunsThePipelineFourTimes(t *testing.T) {
	c := newController(t)
	c.cfg = order(c)
	c.cfg.Rescue.Mode = config.RescueRetry
	i, _ := setUp(t, c, nil)
	i.install(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	fails, streams := 0, 0
	for _, s := range c.statuses {
		if s.State == config.StateError {
			fails++
		}
		if s.Step == "stream-image" && s.Result == "done" {
			streams++
		}
	}
	if fails != 4 || streams != 1 {
		t.Errorf("%d failures, %d times the image; want 4 and 1: a new try goes on where the last stopped", fails, streams)
	}
}

func TestTheLogAndTheNameServerArriveWhereTheyBelong(t *testing.T) {
	c := newController(t)
	c.cfg = order(c)
	c.cfg.Mode = config.ModeDeprovision
	i, _ := setUp(t, c, nil)
	i.install(t.Context())
	b, err := os.ReadFile(filepath.Join(i.root, "etc/resolv.conf"))
	if err != nil || string(b) != "nameserver 192.0.2.53\n" {
		t.Errorf("resolv.conf = %q, %v", b, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := strings.Join(c.log, "\n"); !strings.Contains(all, "order for h: deprovision") || !strings.Contains(all, "wipe /dev/sda (serial DISK1") {
		t.Errorf("shipped log:\n%s", all)
	}
}

func TestNoBootFile(t *testing.T) {
	c := newController(t)
	i, _ := setUp(t, c, nil)
	if err := os.Remove(filepath.Join(i.root, "slipway.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := i.findBoot(t.Context()); !errors.Is(err, errors.NotFound) {
		t.Errorf("findBoot = %v, want NotFound", err)
	}
}

func TestTheProgramRefusesARunningSystem(t *testing.T) {
	if err := run(t.Context(), nil, io.Discard); !errors.Is(err, errors.NotSupported) {
		t.Fatalf("run = %v, want NotSupported", err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &out); err != nil || !strings.HasPrefix(out.String(), "slipway installer ") {
		t.Errorf("run --version = %v, %q", err, out.String())
	}
}
