package baremetal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// site is a controller with hosts, all of which are ready and alike.
type site struct {
	// hold is called at the beginning of each call for hosts; nil: nothing is.
	hold func(ctx context.Context, machines []params.AllocateHost) error

	mu       sync.Mutex
	free     []string
	consumed map[string]held
	err      error
	watchers []*feed
}

// held is a host that is somebody's.
type held struct {
	whose string // site and model
	host  params.ConsumedHost
	ask   params.AllocateHost
}

func newSite(n int) *site {
	s := &site{consumed: map[string]held{}}
	for i := range n {
		s.free = append(s.free, fmt.Sprint("host-", i))
	}
	return s
}

// status is what a host manager says of a host.
func status(state metal3v1alpha1.ProvisioningState) metal3v1alpha1.BareMetalHostStatus {
	s := metal3v1alpha1.BareMetalHostStatus{HardwareDetails: &metal3v1alpha1.HardwareDetails{
		RAMMebibytes: 2048, CPU: metal3v1alpha1.CPU{Arch: "x86_64", Count: 8},
		Storage: []metal3v1alpha1.Storage{{Name: "/dev/sda", SizeBytes: 100 << 30}},
	}}
	s.Provisioning.State = state
	return s
}

func encoded(s metal3v1alpha1.BareMetalHostStatus) json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

// set has the manager say something of a host, and all watchers told.
func (s *site) set(name string, st metal3v1alpha1.BareMetalHostStatus, p params.HostProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.consumed[name]
	h.host.Status, h.host.Progress = encoded(st), p
	s.consumed[name] = h
	s.changed(name)
}

// vanish removes a host.
func (s *site) vanish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.consumed, name)
	s.changed(name)
}

// fail has the calls that can fail do so from now on.
func (s *site) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *site) changed(name string) {
	for _, w := range s.watchers {
		w.ch <- []string{name, "another-models"}
	}
}

// pool is the site as one model sees it.
type pool struct {
	site  *site
	whose string
}

func (p pool) Allocate(ctx context.Context, machines ...params.AllocateHost) (given []params.ConsumedHost, failed []error, err error) {
	if p.site.hold != nil {
		if err := p.site.hold(ctx, machines); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range machines {
		h, err := p.allocate(m)
		given, failed = append(given, h), append(failed, err)
	}
	return given, failed, nil
}

func (p pool) allocate(a params.AllocateHost) (params.ConsumedHost, error) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	machine := strings.TrimPrefix(a.MachineTag, "machine-")
	for _, h := range s.consumed {
		if h.whose != p.whose || h.host.MachineID != machine {
			continue
		}
		if h.host.Nonce != a.Nonce {
			return params.ConsumedHost{}, errors.AlreadyExistsf("host of machine %s", machine)
		}
		h.host.Existed = true
		return h.host, nil
	}
	if len(s.free) == 0 {
		return params.ConsumedHost{}, errors.New("no host matches: of 0 hosts, none")
	}
	name := s.free[0]
	s.free = s.free[1:]
	h := held{p.whose, params.ConsumedHost{
		Name: name, MachineID: machine, Nonce: a.Nonce, Zone: "z1", Tags: []string{"ssd"}, Status: encoded(status(metal3v1alpha1.StateReady)),
	}, a}
	s.consumed[name] = h
	return h.host, nil
}

func (p pool) Release(_ context.Context, names ...string) ([]error, error) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]error, len(names))
	for i, name := range names {
		h, ok := s.consumed[name]
		switch {
		case ok && h.whose != p.whose:
			results[i] = errors.NotFoundf("host %q", name)
		case ok:
			delete(s.consumed, name)
			s.free = append(s.free, name)
		}
	}
	return results, s.err
}

func (p pool) Consumed(_ context.Context, names ...string) ([]params.ConsumedHost, error) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []params.ConsumedHost
	for name, h := range s.consumed {
		if h.whose == p.whose && (len(names) == 0 || slices.Contains(names, name)) {
			out = append(out, h.host)
		}
	}
	return out, s.err
}

func (p pool) WatchConsumed(context.Context) (watcher.StringsWatcher, error) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &feed{ch: make(chan []string, 100)}
	f.tomb.Go(func() error { <-f.tomb.Dying(); return nil })
	f.ch <- []string{"another-models"}
	s.watchers = append(s.watchers, f)
	return f, s.err
}

func (p pool) Zones(context.Context) ([]params.HostZone, error) {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	return []params.HostZone{{Name: "z1", Free: true}, {Name: "z2"}}, p.site.err
}

// feed is a watcher that a test drives.
type feed struct {
	tomb tomb.Tomb
	ch   chan []string
}

func (f *feed) Kill()                    { f.tomb.Kill(nil) }
func (f *feed) Wait() error              { return f.tomb.Wait() }
func (f *feed) Changes() <-chan []string { return f.ch }
