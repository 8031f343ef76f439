package containers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// feed is a watcher that a test drives.
type feed[T any] struct {
	tomb tomb.Tomb
	ch   chan T
}

func newFeed[T any](first T) *feed[T] {
	f := &feed[T]{ch: make(chan T, 100)}
	f.ch <- first
	f.tomb.Go(func() error { <-f.tomb.Dying(); return nil })
	return f
}

func (f *feed[T]) Kill()             { f.tomb.Kill(nil) }
func (f *feed[T]) Wait() error       { return f.tomb.Wait() }
func (f *feed[T]) Changes() <-chan T { return f.ch }

// record is a container as the controller keeps it.
type record struct {
	life     life.Value
	instance instance.ID
	status   status.Info // of the instance
}

// typed is a watcher of containers of one type; empty means any.
type typed struct {
	*feed[[]string]
	typ string
}

func (w typed) sees(id string) bool { return w.typ == "" || strings.Contains(id, "/"+w.typ+"/") }

// controller is a controller with one machine that holds containers. Calls that
// a host's provisioner must not make panic, since the interface is nil.
type controller struct {
	API // nil

	mu        sync.Mutex
	supported []string
	told      bool // whether supported has been told
	records   map[string]*record
	watchers  []typed
	subnet    string // of the addresses that containers are given; empty means that they are given none
	released  []string
	changed   chan struct{}
}

func newController(ids ...string) *controller {
	c := &controller{records: map[string]*record{}, changed: make(chan struct{}, 1)}
	for _, id := range ids {
		c.records[id] = &record{life: life.Alive}
	}
	return c
}

// tell lets a test that waits look again.
func (c *controller) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// until waits until something is so.
func (c *controller) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for {
		c.mu.Lock()
		ok := so()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.changed:
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

// change changes a container and says so.
func (c *controller) change(id string, f func(r *record)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records[id] == nil {
		c.records[id] = &record{life: life.Alive}
	}
	f(c.records[id])
	for _, w := range c.watchers {
		if w.sees(id) {
			w.ch <- []string{id}
		}
	}
}

func (c *controller) SetSupportedContainers(_ context.Context, _ string, types ...string) error {
	defer c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supported, c.told = types, true
	return nil
}

func (c *controller) WatchContainers(_ context.Context, host, typ string) (watcher.StringsWatcher, error) {
	if host != "0" || typ != "lxd" {
		return nil, errors.Unauthorizedf("containers %s of machine %s", typ, host)
	}
	return c.watch(typ), nil
}

func (c *controller) WatchAllContainers(context.Context, string) (watcher.StringsWatcher, error) {
	return c.watch(""), nil
}

func (c *controller) watch(typ string) typed {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := typed{typ: typ}
	w.feed = newFeed(slices.DeleteFunc(slices.Sorted(maps.Keys(c.records)), func(id string) bool { return !w.sees(id) }))
	c.watchers = append(c.watchers, w)
	return w
}

func (c *controller) WatchModelConfig(context.Context) (watcher.NotifyWatcher, error) {
	return newFeed(struct{}{}), nil
}

func (c *controller) ModelConfig(context.Context) (map[string]any, error) {
	return map[string]any{
		"name": "m", "type": "simulated", "uuid": providertest.Model, "provisioner-retry-delay": "1ms",
		lxd.ImageKey: "base", lxd.CloudInitKey: false, lxd.HostsKey: map[string]any{"elsewhere": "https://10.0.0.1"},
	}, nil
}

func (c *controller) APIAddresses(context.Context) ([]string, error) {
	return []string{"127.0.0.1:17070", "127.0.0.1:17999"}, nil
}

func (c *controller) FindTools(context.Context, params.FindToolsParams) ([]params.Tools, error) {
	return nil, errors.NotFoundf("tools")
}

func (c *controller) CACert(context.Context) (string, error) { return "CA", nil }

// each answers a call about containers.
func each[T any](c *controller, ids []string, f func(r *record) (T, error)) ([]api.Result[T], error) {
	defer c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]api.Result[T], len(ids))
	for i, id := range ids {
		if r, ok := c.records[id]; ok {
			out[i].Value, out[i].Err = f(r)
		} else {
			out[i].Err = errors.NotFoundf("machine %s", id)
		}
	}
	return out, nil
}

// eachError is each for calls that return nothing but errors.
func eachError(c *controller, ids []string, f func(r *record) error) ([]error, error) {
	results, err := each(c, ids, func(r *record) (struct{}, error) { return struct{}{}, f(r) })
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
	}
	return errs, err
}

func (c *controller) Life(_ context.Context, ids ...string) ([]api.Result[life.Value], error) {
	return each(c, ids, func(r *record) (life.Value, error) { return r.life, nil })
}

func (c *controller) InstanceID(_ context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	return each(c, ids, func(r *record) (instance.ID, error) {
		if r.instance == "" {
			return "", errors.NotProvisionedf("machine")
		}
		return r.instance, nil
	})
}

func (c *controller) Status(_ context.Context, ids ...string) ([]api.Result[status.Info], error) {
	return each(c, ids, func(*record) (status.Info, error) { return status.Info{Status: status.Pending}, nil })
}

func (c *controller) ProvisioningInfo(_ context.Context, ids ...string) ([]api.Result[params.ProvisioningInfo], error) {
	return each(c, ids, func(*record) (params.ProvisioningInfo, error) {
		return params.ProvisioningInfo{Series: "jammy", Jobs: []string{"JobHostUnits"}, Placement: "zone=of-the-host"}, nil
	})
}

func (c *controller) DistributionGroup(_ context.Context, ids ...string) ([]api.Result[[]instance.ID], error) {
	return each(c, ids, func(*record) ([]instance.ID, error) { return nil, nil })
}

func (c *controller) SetPasswords(_ context.Context, set ...apiprovisioner.Password) ([]error, error) {
	return make([]error, len(set)), nil
}

func (c *controller) SetInstanceInfo(_ context.Context, set ...apiprovisioner.Instance) ([]error, error) {
	errs := make([]error, len(set))
	for i, s := range set {
		one, _ := eachError(c, []string{s.MachineID}, func(r *record) error { r.instance = s.ID; return nil })
		errs[i] = one[0]
	}
	return errs, nil
}

func (c *controller) SetInstanceStatus(_ context.Context, set ...apiprovisioner.NewStatus) ([]error, error) {
	errs := make([]error, len(set))
	for i, s := range set {
		one, _ := eachError(c, []string{s.ID}, func(r *record) error {
			r.status = status.Info{Status: s.Status, Message: s.Message, Data: s.Data}
			return nil
		})
		errs[i] = one[0]
	}
	return errs, nil
}

func (c *controller) EnsureDead(_ context.Context, ids ...string) ([]error, error) {
	return eachError(c, ids, func(r *record) error { r.life = life.Dead; return nil })
}

func (c *controller) Remove(_ context.Context, ids ...string) ([]error, error) {
	errs, err := eachError(c, ids, func(*record) error { return nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.records, id)
	}
	c.tell()
	return errs, err
}

func (c *controller) PrepareContainerInterfaceInfo(_ context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	if c.subnet == "" {
		return nil, errors.NotSupportedf("container address allocation")
	}
	return each(c, ids, func(*record) ([]params.NetworkConfig, error) {
		return []params.NetworkConfig{{InterfaceName: "ens3", MACAddress: "00:16:3e:00:00:01", CIDR: c.subnet, Address: "10.0.0.7"}}, nil
	})
}

func (c *controller) GetContainerInterfaceInfo(ctx context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	return c.PrepareContainerInterfaceInfo(ctx, ids...)
}

func (c *controller) ReleaseContainerAddresses(_ context.Context, ids ...string) ([]error, error) {
	if c.subnet == "" {
		return nil, errors.NotSupportedf("container address allocation")
	}
	c.mu.Lock()
	c.released = append(c.released, ids...)
	c.mu.Unlock()
	return make([]error, len(ids)), nil
}
