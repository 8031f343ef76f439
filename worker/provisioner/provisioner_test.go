package provisioner

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// fakeEnviron is a fakeBroker as a provider opens it.
type fakeEnviron struct {
	*fakeBroker
	configs []*config.Config
}

func (e *fakeEnviron) SetConfig(_ context.Context, c *config.Config) error {
	e.configs = append(e.configs, c)
	return nil
}
func (e *fakeEnviron) Precheck(context.Context, environs.PrecheckParams) error { return nil }
func (e *fakeEnviron) ConstraintsValidator(context.Context) (*constraints.Validator, error) {
	return nil, nil
}
func (e *fakeEnviron) Destroy(context.Context) error { return nil }
func (e *fakeEnviron) Instances(context.Context, []instance.ID) ([]environs.Instance, error) {
	return nil, nil
}
func (e *fakeEnviron) MaintainInstance(context.Context, string, instance.ID) error { return nil }

// fakeProvider opens a fakeEnviron, unless the configuration says "bad".
type fakeProvider struct{ environ *fakeEnviron }

func (p *fakeProvider) Open(context.Context, environs.OpenParams) (environs.Environ, error) {
	return p.environ, nil
}

func (p *fakeProvider) Validate(c, _ *config.Config) (*config.Config, error) {
	if c.AllAttrs()["bad"] != nil {
		return nil, errors.NotValidf("bad")
	}
	return c, nil
}
func (p *fakeProvider) Schema() config.Schema { return config.Schema{{Name: "bad"}} }

func runProvisioner(t *testing.T, f *fakeAPI, e *fakeEnviron) *Provisioner {
	t.Helper()
	p, err := New(Config{
		API: f, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
		Registry: environs.NewRegistry(map[string]environs.Provider{"fake": &fakeProvider{environ: e}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		f.machineFeed.Kill()
		f.retryFeed.Kill()
	})
	return p
}

// set changes the model's configuration, and says so.
func (f *fakeAPI) set(attrs map[string]any) {
	f.mu.Lock()
	f.config = maps.Clone(f.config)
	maps.Copy(f.config, attrs)
	f.mu.Unlock()
	f.configFeed.ch <- struct{}{}
}

func TestProvisionerWaitsForAConfigurationItCanUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFakeAPI("0"), &fakeEnviron{fakeBroker: newFakeBroker()}
		f.config["bad"] = "yes"
		p := runProvisioner(t, f, e)
		wait(time.Minute)
		wantDid(t, e.fakeBroker)
		f.mu.Lock()
		delete(f.config, "bad")
		f.mu.Unlock()
		f.set(nil)
		wait(time.Second)
		wantInstance(t, f, "0", "i-1")
		p.Kill()
		if err := p.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	})
}

// TestProvisionerOfAModelThatIsRemovedIsDone: it leaves nothing behind that goes on
// working, which the end of the bubble would find.
func TestProvisionerOfAModelThatIsRemovedIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFakeAPI("0"), &fakeEnviron{fakeBroker: newFakeBroker()}
		p := runProvisioner(t, f, e)
		wait(time.Second)
		wantInstance(t, f, "0", "i-1")
		f.mu.Lock()
		f.config = nil
		f.mu.Unlock()
		f.configFeed.ch <- struct{}{}
		if err := p.Wait(); !errors.Is(err, worker.ErrDone) {
			t.Errorf("Wait() = %v, want that it is done", err)
		}
	})
}

func TestProvisionerObservesTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFakeAPI("0"), &fakeEnviron{fakeBroker: newFakeBroker()}
		e.have("unknown", owner("7"), "")
		runProvisioner(t, f, e)
		wait(time.Second)
		f.set(map[string]any{"bad": "yes"}) // the last good one stays in force
		wait(time.Second)
		if len(e.configs) != 0 {
			t.Errorf("a bad configuration reached the provider")
		}
		f.mu.Lock()
		delete(f.config, "bad")
		f.mu.Unlock()
		f.set(map[string]any{"provisioner-harvest-mode": "all"})
		wait(time.Second)
		if len(e.configs) != 1 {
			t.Errorf("the provider saw %d changes, want 1", len(e.configs))
		}
		if left := e.left(); len(left) != 1 || left[0] != "i-1" {
			t.Errorf("instances %v left, want i-1: the new harvest mode applies at once", left)
		}
	})
}

func TestProvisionerEndsWithItsWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFakeAPI("0"), &fakeEnviron{fakeBroker: newFakeBroker()}
		f.machines["0"].life = life.Alive
		p := runProvisioner(t, f, e)
		wait(time.Second)
		f.machineFeed.tomb.Kill(errors.New("connection cut"))
		close(f.machineFeed.ch)
		if err := p.Wait(); err == nil {
			t.Error("Wait() = nil after the machine watcher ended, want why")
		}
	})
}

// TestProvisionerOfContainers has the same done about a machine's containers, with
// a broker on the host itself, and without what only managers may ask.
func TestProvisionerOfContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0/lxd/0", "0/lxd/1"), newFakeBroker()
		f.retryFeed.Kill()
		f.retryFeed = nil // whoever watched it would panic
		p, err := New(Config{
			API: f, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
			Host: &Host{ID: "0", Type: container.LXD, Broker: b},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer f.machineFeed.Kill()
		wait(time.Second)
		kept, _ := f.get("0/lxd/1")
		if left := b.left(); len(left) != 2 || kept.instance == "" {
			t.Errorf("instances %v, want two", left)
		}
		f.change("0/lxd/0", dies)
		wait(time.Second)
		if left := b.left(); len(left) != 1 || left[0] != kept.instance {
			t.Errorf("instances %v left, want %s", left, kept.instance)
		}
		wantGone(t, f, "0/lxd/0")
		p.Kill()
		if err := p.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	})
}

// TestRetriesOfContainers has a container in error tried again, and not its host,
// of which the host's own agent is told too.
func TestRetriesOfContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "0/lxd/0", "0/kvm/0"), newFakeBroker()
		<-f.machineFeed.ch
		f.machineFeed.ch <- []string{"0/lxd/0"}
		for _, m := range f.machines {
			m.status = status.Info{Status: status.Error, Message: "x", Data: map[string]any{"transient": true}}
		}
		retries := f.retryFeed
		f.retryFeed = nil // that of managers
		p, err := New(Config{
			API: f, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
			Host: &Host{ID: "0", Type: container.LXD, Broker: b, Retries: func(context.Context) (watcher.NotifyWatcher, error) { return retries, nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer f.machineFeed.Kill()
		wait(time.Second)
		wantDid(t, b)
		retries.ch <- struct{}{}
		wait(time.Second)
		wantDid(t, b, "start 0/lxd/0 i-1")
		for _, id := range []string{"0", "0/kvm/0"} {
			if m, _ := f.get(id); m.status.Status != status.Error {
				t.Errorf("machine %s is %v, want it left alone", id, m.status)
			}
		}
		p.Kill()
		if err := p.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New without anything = %v, want NotValid", err)
	}
	host := Config{API: &fakeAPI{}, ModelUUID: modelUUID, ControllerUUID: controllerUUID, Host: &Host{ID: "0"}}
	if _, err := New(host); !errors.Is(err, errors.NotValid) {
		t.Errorf("New with half a host = %v, want NotValid", err)
	}
}

// hangingAPI is a controller that does not answer what the configuration is.
type hangingAPI struct {
	*fakeAPI
	asked chan struct{}
}

func (h hangingAPI) ModelConfig(ctx context.Context) (map[string]any, error) {
	close(h.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAProvisionerIsStoppedWhileItAsks(t *testing.T) {
	h := hangingAPI{newFakeAPI(), make(chan struct{})}
	p, err := New(Config{
		API: h, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
		Registry: environs.NewRegistry(map[string]environs.Provider{"fake": &fakeProvider{}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.retryFeed.Kill()
	defer h.machineFeed.Kill()
	<-h.asked
	p.Kill()
	if err := p.Wait(); err != nil {
		t.Errorf("Wait after Kill = %v", err)
	}
}
