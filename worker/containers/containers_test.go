package containers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// configFor returns the config of machine 0 as a host on a server.
func configFor(t *testing.T, c *controller, address string) Config {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "provisionerd")
	if err := os.WriteFile(agent, []byte("agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{
		API: c, MachineID: "0", ModelUUID: providertest.Model, ControllerUUID: providertest.Site,
		Addresses: []string{"127.0.0.1:17070"},
		LXD:       lxd.Options{Hosts: map[string]string{"local": address}, AgentBinary: agent},
		Backoff:   worker.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	}
}

func start(t *testing.T, cfg Config) *Worker {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	})
	return w
}

func TestContainersAreStartedAndSeenOut(t *testing.T) {
	server := lxdtest.NewServer(t, "base")
	server.Bare() // nobody has set it up
	c := newController()
	start(t, configFor(t, c, server.Address))
	c.until(t, "what the host can hold is told", func() bool { return c.told })
	if !slices.Equal(c.supported, []string{"lxd"}) {
		t.Fatalf("supported containers = %q, want lxd", c.supported)
	}
	for _, id := range []string{"0/lxd/0", "0/lxd/1"} {
		c.change(id, func(*record) {})
		c.until(t, "container "+id+" is recorded", func() bool { return c.records[id].instance != "" })
	}
	if got := server.Containers(); len(got) != 2 || server.Pool() != "default" {
		t.Errorf("%d containers, root disks in %q", len(got), server.Pool())
	}
	for _, made := range server.Containers() {
		// The host's own way to the API comes first, then the published one.
		agent := made.Files["/var/lib/slipway/agent.yaml"].Content
		if made.Devices["slipway-api-0"]["connect"] != "tcp:127.0.0.1:17070" || made.Devices["slipway-api-1"]["connect"] != "tcp:127.0.0.1:17999" ||
			!strings.Contains(agent, "tag: machine-0-lxd-") {
			t.Errorf("%s: devices %v, agent file without the container's tag", made.Name, made.Devices)
		}
	}
	c.change("0/lxd/0", func(r *record) { r.life = life.Dead })
	c.until(t, "container 0/lxd/0 is removed", func() bool { return c.records["0/lxd/0"] == nil })
	if got := server.Containers(); len(got) != 1 {
		t.Errorf("%d containers are left, want 1", len(got))
	}
}

func TestContainersFromBeforeAreKept(t *testing.T) {
	server := lxdtest.NewServer(t, "base")
	c := newController("0/lxd/0")
	cfg := configFor(t, c, server.Address)
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.until(t, "the container is recorded", func() bool { return c.records["0/lxd/0"].instance != "" })
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(server.Containers()) != 1 {
		t.Fatal("the container ended with the worker")
	}
	// The host forgot to record it, say: the agent was killed.
	c.records["0/lxd/0"].instance = ""
	before := len(server.Calls())
	start(t, cfg)
	c.until(t, "the container is recorded again", func() bool { return c.records["0/lxd/0"].instance != "" })
	if slices.Contains(server.Calls()[before:], "POST /1.0/instances") || len(server.Containers()) != 1 {
		t.Error("another container was made")
	}
}

func TestMachineWithoutLXDSaysSo(t *testing.T) {
	c := newController("0/lxd/0")
	start(t, configFor(t, c, "unix:///nonexistent/socket"))
	c.until(t, "what the host can hold is told", func() bool { return c.told })
	if len(c.supported) != 0 {
		t.Errorf("supported containers = %q, want none", c.supported)
	}
}

func TestFailedSetUpIsShownAndMended(t *testing.T) {
	server := lxdtest.NewServer(t, "base")
	server.Bare()
	server.Fail(func(call string) *lxdtest.Failure {
		if call == "POST /1.0/storage-pools" {
			return &lxdtest.Failure{Code: 500, Text: "no space left on device"}
		}
		return nil
	})
	c := newController("0/lxd/0")
	start(t, configFor(t, c, server.Address))
	c.until(t, "the container's status says why it waits", func() bool {
		s := c.records["0/lxd/0"].status
		return strings.Contains(s.Message, "machine 0 is not ready for containers") && strings.Contains(s.Message, "no space left") && s.Data["next-try"] != nil
	})
	server.Fail(nil)
	c.until(t, "the container is recorded", func() bool { return c.records["0/lxd/0"].instance != "" })
}

// What was never started can go, also while the machine cannot be set up or has no
// LXD at all, and whatever kind of container it is.
func TestPendingContainersCanGo(t *testing.T) {
	full := lxdtest.NewServer(t, "base")
	full.Bare()
	full.Fail(func(call string) *lxdtest.Failure {
		if call == "POST /1.0/storage-pools" {
			return &lxdtest.Failure{Code: 500, Text: "no space left on device"}
		}
		return nil
	})
	for name, address := range map[string]string{
		"no LXD": "unix:///nonexistent/socket", "no set-up": full.Address, "all is well": lxdtest.NewServer(t, "base").Address,
	} {
		t.Run(name, func(t *testing.T) {
			c := newController("0/kvm/0", "0/kvm/1", "0/lxd/0")
			start(t, configFor(t, c, address))
			c.until(t, "what the host can hold is told", func() bool { return c.told })
			c.change("0/kvm/0", func(r *record) { r.life = life.Dying })
			c.until(t, "0/kvm/0 is gone", func() bool { return c.records["0/kvm/0"] == nil })
			c.change("0/lxd/0", func(r *record) { r.life = life.Dead })
			c.until(t, "0/lxd/0 is gone", func() bool { return c.records["0/lxd/0"] == nil })
			c.change("0/kvm/1", func(r *record) { r.instance = "somebody's" })
			c.change("0/kvm/1", func(r *record) { r.life = life.Dying })
			c.change("0/kvm/2", func(r *record) { r.life = life.Dying })
			c.until(t, "0/kvm/2 is gone", func() bool { return c.records["0/kvm/2"] == nil })
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.records["0/kvm/1"] == nil {
				t.Error("a container that was started is not recorded any more")
			}
		})
	}
}

// On a server that others use too, and that may even hold the host itself,
// nothing but the host's own containers is seen.
func TestOnlyOwnContainersAreSeen(t *testing.T) {
	server := lxdtest.NewServer(t, "base")
	cfg := configFor(t, newController(), server.Address)
	attrs, err := newController().ModelConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	model, err := config.New(attrs)
	if err != nil {
		t.Fatal(err)
	}
	open := environs.OpenParams{ControllerUUID: providertest.Site, Config: local(model)}
	whole, err := lxd.New(cfg.LXD).Open(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]instance.ID{}
	for _, id := range []string{"0", "0/lxd/0", "0/lxd/0/lxd/0", "1/lxd/0", "10/lxd/0"} {
		r, err := whole.StartInstance(t.Context(), providertest.Params(providertest.Site, providertest.Model, id, base.Default()))
		if err != nil {
			t.Fatal(err)
		}
		started[id] = r.Instance.ID
	}
	host, err := providers{cfg}.Open(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	all, err := host.AllInstances(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != started["0/lxd/0"] {
		t.Errorf("AllInstances = %v, %v, want only that of 0/lxd/0", all, err)
	}
	results, err := host.StopInstances(t.Context(), []instance.ID{started["0"], started["0/lxd/0"], started["1/lxd/0"]})
	if err != nil || len(results) != 3 || results[0] != nil || results[1] != nil || results[2] != nil {
		t.Errorf("StopInstances = %v, %v", results, err)
	}
	if got := len(server.Containers()); got != 4 {
		t.Errorf("%d containers are left, want all but one", got)
	}
	_, err = host.StartInstance(t.Context(), providertest.Params(providertest.Site, providertest.Model, "1/lxd/1", base.Default()))
	if !errors.Is(err, errors.NotValid) {
		t.Errorf("StartInstance of another machine's container = %v, want NotValid", err)
	}
}

// A host hears of retries of its own containers alone, and not at all if nobody asks.
func TestRetriesAreThoseOfOwnContainers(t *testing.T) {
	asked := newFeed(struct{}{})
	defer asked.Kill()
	h := hostAPI{API: failed{ids: []string{"0", "0/lxd/0", "0/kvm/0", "0/lxd/0/lxd/0", "10/lxd/0"}}, host: "0",
		retries: func(context.Context) (watcher.NotifyWatcher, error) { return asked, nil }}
	if w, err := h.WatchMachineErrorRetry(t.Context()); err != nil || w != watcher.NotifyWatcher(asked) {
		t.Errorf("WatchMachineErrorRetry = %v, %v, want what tells of retries", w, err)
	}
	got, err := h.MachinesWithTransientErrors(t.Context())
	if err != nil || len(got) != 1 || got[0].ID != "0/lxd/0" {
		t.Errorf("MachinesWithTransientErrors = %v, %v, want only 0/lxd/0", got, err)
	}
	h.retries = nil
	w, err := h.WatchMachineErrorRetry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	if _, ok := <-w.Changes(); ok || w.Wait() != nil {
		t.Error("an event although nobody can ask")
	}
}

// failed is a controller of machines with transient errors.
type failed struct {
	API // nil
	ids []string
}

func (f failed) MachinesWithTransientErrors(context.Context) ([]apiprovisioner.Transient, error) {
	var out []apiprovisioner.Transient
	for _, id := range f.ids {
		out = append(out, apiprovisioner.Transient{ID: id})
	}
	return out, nil
}

func TestConfigIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no API":      func(c *Config) { c.API = nil },
		"no machine":  func(c *Config) { c.MachineID = "" },
		"no UUID":     func(c *Config) { c.ModelUUID = "" },
		"two servers": func(c *Config) { c.LXD.Hosts = map[string]string{"a": "unix:///a", "b": "unix:///b"} },
	} {
		cfg := configFor(t, newController(), "unix:///a")
		spoil(&cfg)
		if _, err := New(cfg); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: New = %v, want NotValid", name, err)
		}
	}
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
