package common_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// fakeWatcher is a watcher whose events a test sends.
type fakeWatcher[T any] struct {
	changes chan T
	once    sync.Once
	err     error
}

func newWatcher[T any](events ...T) *fakeWatcher[T] {
	w := &fakeWatcher[T]{changes: make(chan T, 10)}
	for _, e := range events {
		w.changes <- e
	}
	return w
}

func (w *fakeWatcher[T]) Kill()             { w.once.Do(func() { close(w.changes) }) }
func (w *fakeWatcher[T]) Wait() error       { return w.err }
func (w *fakeWatcher[T]) Changes() <-chan T { return w.changes }

// below is what addresses and configuration come from.
type below struct {
	servers [][]network.HostPort
	err     error
}

func (b below) APIHostPorts(context.Context) ([][]network.HostPort, error) { return b.servers, b.err }
func (b below) WatchAPIHostPorts(context.Context) (watcher.NotifyWatcher, error) {
	return newWatcher(struct{}{}), b.err
}
func (b below) CACert(context.Context) (string, error) { return "a certificate", b.err }
func (b below) ModelUUID() string                      { return "my-uuid" }
func (b below) ModelConfig(context.Context) (map[string]any, error) {
	return map[string]any{"secret": "s"}, b.err
}
func (b below) WatchModelConfig(context.Context) (watcher.NotifyWatcher, error) {
	return newWatcher(struct{}{}), b.err
}

func hostPort(host string, scope network.Scope, port int) network.HostPort {
	return network.HostPort{Address: network.Address{Value: host, Scope: scope}, Port: port}
}

// Cases: provisioner/CACert mixins/APIAddresser
func TestAPIAddresser(t *testing.T) {
	resources := common.NewResources()
	defer resources.StopAll()
	b := below{servers: [][]network.HostPort{
		{hostPort("apiaddresses", "", 1)},
		{hostPort("52.7.1.1", network.ScopePublic, 17070), hostPort("10.0.2.1", network.ScopeCloudLocal, 17070), hostPort("127.0.0.1", network.ScopeMachineLocal, 17070)},
		{hostPort("53.51.121.17", network.ScopePublic, 17070), hostPort("10.0.1.17", network.ScopeCloudLocal, 17070), hostPort("fe80::1", network.ScopeLinkLocal, 17070)},
		{hostPort("apiaddresses", "", 2)},
	}}
	a := common.NewAPIAddresser(b, resources)
	got, err := a.APIAddresses(t.Context())
	want := []string{"apiaddresses:1", "10.0.2.1:17070", "52.7.1.1:17070", "10.0.1.17:17070", "53.51.121.17:17070", "apiaddresses:2"}
	if err != nil || !slices.Equal(got.Result, want) {
		t.Errorf("APIAddresses = %v, %v, want %v", got.Result, err, want)
	}
	all, err := a.APIHostPorts(t.Context())
	if err != nil || len(all.Servers) != 4 || len(all.Servers[1]) != 3 {
		t.Errorf("APIHostPorts = %v, %v, want all of them", all, err)
	}
	if cert, err := a.CACert(t.Context()); err != nil || string(cert.Result) != "a certificate" {
		t.Errorf("CACert = %s, %v", cert.Result, err)
	}
	if uuid, err := a.ModelUUID(); err != nil || uuid.Result != "my-uuid" {
		t.Errorf("ModelUUID = %v, %v", uuid, err)
	}
	if w, err := a.WatchAPIHostPorts(t.Context()); err != nil || w.NotifyWatcherID != "1" || resources.Count() != 1 {
		t.Errorf("WatchAPIHostPorts = %+v, %v, want watcher 1", w, err)
	}
}

// Cases: mixins/ModelWatcher
func TestFailuresBelowPassThrough(t *testing.T) {
	resources := common.NewResources()
	defer resources.StopAll()
	b := below{err: errors.New("it broke")}
	a, m := common.NewAPIAddresser(b, resources), common.NewModelWatcher(b, resources)
	s := common.NewStateAddresser(func(context.Context) ([]string, error) { return nil, b.err })
	calls := map[string]func() error{
		"APIAddresses":               func() error { _, err := a.APIAddresses(t.Context()); return err },
		"APIHostPorts":               func() error { _, err := a.APIHostPorts(t.Context()); return err },
		"CACert":                     func() error { _, err := a.CACert(t.Context()); return err },
		"WatchAPIHostPorts":          func() error { _, err := a.WatchAPIHostPorts(t.Context()); return err },
		"ModelConfig":                func() error { _, err := m.ModelConfig(t.Context()); return err },
		"WatchForModelConfigChanges": func() error { _, err := m.WatchForModelConfigChanges(t.Context()); return err },
		"StateAddresses":             func() error { _, err := s.StateAddresses(t.Context()); return err },
	}
	for name, call := range calls {
		if err := call(); err == nil || err.Error() != "it broke" {
			t.Errorf("%s = %v, want what went wrong below", name, err)
		}
	}
	if resources.Count() != 0 {
		t.Errorf("%d resources registered by calls that failed", resources.Count())
	}
}

// Cases: mixins/ModelWatcher
func TestModelWatcher(t *testing.T) {
	resources := common.NewResources()
	defer resources.StopAll()
	m := common.NewModelWatcher(below{}, resources)
	if got, err := m.ModelConfig(t.Context()); err != nil || got.Config["secret"] != "s" {
		t.Errorf("ModelConfig = %v, %v, want it whole", got, err)
	}
	got, err := m.WatchForModelConfigChanges(t.Context())
	if err != nil || got.NotifyWatcherID != "1" {
		t.Fatalf("WatchForModelConfigChanges = %+v, %v, want watcher 1", got, err)
	}
	if w := resources.Get("1").(watcher.NotifyWatcher); len(w.Changes()) != 0 {
		t.Error("the first event is still there, want it consumed")
	}
}

// Cases: mixins/ModelMachinesWatcher
func TestModelMachinesWatcher(t *testing.T) {
	resources := common.NewResources()
	defer resources.StopAll()
	watch := func(context.Context) (watcher.StringsWatcher, error) { return newWatcher([]string{"foo"}), nil }
	got, err := common.NewModelMachinesWatcher(watch, resources, auth{tag: "machine-0", manager: true}).WatchModelMachines(t.Context())
	if err != nil || got.StringsWatcherID != "1" || !slices.Equal(got.Changes, []string{"foo"}) {
		t.Errorf("WatchModelMachines = %+v, %v, want watcher 1 with foo", got, err)
	}
	got, err = common.NewModelMachinesWatcher(watch, resources, auth{tag: "machine-1"}).WatchModelMachines(t.Context())
	if !errors.Is(err, errors.Unauthorized) || got.StringsWatcherID != "" || resources.Count() != 1 {
		t.Errorf("WatchModelMachines of an agent = %+v, %v, want it refused", got, err)
	}
}

func TestNext(t *testing.T) {
	failed := newWatcher[struct{}]()
	failed.err = errors.New("store is closed")
	failed.Kill()
	stopped := newWatcher[struct{}]()
	stopped.Kill()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		w    *fakeWatcher[struct{}]
		want string
	}{
		{"an event", t.Context(), newWatcher(struct{}{}), ""},
		{"stopped", t.Context(), stopped, "watcher has been stopped [stopped]"},
		{"failed", t.Context(), failed, "store is closed"},
		{"connection gone", done, newWatcher[struct{}](), "watcher has been stopped [stopped]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := common.Next(test.ctx, test.w, test.w.Changes()); text(params.ErrorOf(err)) != test.want {
				t.Errorf("Next = %v, want %q", err, test.want)
			}
		})
	}
}

func TestWatchersOfOneConnectionAreBounded(t *testing.T) {
	r := common.NewResources()
	defer r.StopAll()
	for range common.MaxResources {
		r.Register(&fakeResource{})
	}
	strings, notify := newWatcher([]string{"a"}), newWatcher(struct{}{})
	if _, err := common.RegisterStrings(t.Context(), r, strings); !errors.Is(err, errors.NotValid) {
		t.Errorf("RegisterStrings beyond the bound = %v, want NotValid", err)
	}
	if _, err := common.RegisterNotify(t.Context(), r, notify); !errors.Is(err, errors.NotValid) {
		t.Errorf("RegisterNotify beyond the bound = %v, want NotValid", err)
	}
	for ended := range slices.Values([]func() bool{
		func() bool { _, open := <-strings.Changes(); return !open },
		func() bool { _, open := <-notify.Changes(); return !open },
	}) {
		if !ended() {
			t.Error("a watcher that there was no room for goes on")
		}
	}
	if err := r.Stop("1"); err != nil {
		t.Fatal(err)
	}
	if _, err := common.RegisterStrings(t.Context(), r, newWatcher([]string{"a"})); err != nil {
		t.Errorf("RegisterStrings after one was stopped = %v", err)
	}
}

// waking is a fakeWatcher that wakes its reader when told to.
type waking struct {
	*fakeWatcher[[]string]
	wake chan func()
}

func (w waking) WhenReady(wake func()) { w.wake <- wake }

func TestLaterWaitsForTheNextEvent(t *testing.T) {
	result := func(names []string) params.StringsWatchResult { return params.StringsWatchResult{Changes: names} }
	plain, failed := newWatcher[[]string](), errors.New("it broke")
	wakes := waking{newWatcher[[]string](), make(chan func(), 1)}
	tests := []struct {
		name  string
		w     watcher.StringsWatcher
		below *fakeWatcher[[]string]
		wake  func()
	}{
		{"with a goroutine", plain, plain, func() {}},
		{"without", wakes, wakes.fakeWatcher, func() { (<-wakes.wake)() }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := common.Later(t.Context(), test.w, test.w.Changes(), result)
			if got, done, err := p.Poll(); done {
				t.Fatalf("Poll without an event = %v, %v", got, err)
			}
			woken := make(chan struct{})
			p.Ready(func() { close(woken) })
			test.below.changes <- []string{"a"}
			test.wake()
			<-woken
			got, done, err := p.Poll()
			if r, ok := got.(params.StringsWatchResult); !done || err != nil || !ok || !slices.Equal(r.Changes, []string{"a"}) {
				t.Errorf("Poll = %v, %v, %v, want the event", got, done, err)
			}
			test.below.err = failed
			test.below.Kill()
			p = common.Later(t.Context(), test.w, test.w.Changes(), result)
			if _, done, err := p.Poll(); !done || !errors.Is(err, failed) {
				t.Errorf("Poll of a watcher that has failed = %v, %v, want its error", done, err)
			}
		})
	}
}
