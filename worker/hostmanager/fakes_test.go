package hostmanager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker/hostmanager"
)

// store is a Store in memory.
type store struct {
	mu       sync.Mutex
	records  map[string]hostmanager.Record
	watchers []*idWatcher
	states   map[string][]metal3v1alpha1.ProvisioningState // each host's, in order
	events   map[string][]string
	saves    int
	intents  int
	fail     func(what string) error
}

func newStore() *store {
	return &store{records: make(map[string]hostmanager.Record), states: make(map[string][]metal3v1alpha1.ProvisioningState),
		events: make(map[string][]string), fail: func(string) error { return nil }}
}

// add adds a host with good credentials at a simulated BMC.
func (s *store) add(id string, change func(*metal3v1alpha1.BareMetalHost)) {
	h := new(metal3v1alpha1.BareMetalHost)
	h.Metadata.Name, h.Metadata.UID = id, id
	h.Spec.BMC.Address, h.Spec.Online = "simulated://"+id, true
	if change != nil {
		change(h)
	}
	s.mu.Lock()
	s.records[id] = hostmanager.Record{ID: id, Host: h, Credentials: bmc.Credentials{Username: "u", Password: "p"}, CredentialsVersion: "1"}
	s.mu.Unlock()
	s.announce(id)
}

// change changes a record as its owner would.
func (s *store) change(id string, f func(*hostmanager.Record)) {
	s.mu.Lock()
	r := s.records[id]
	r.Host = r.Host.Copy()
	f(&r)
	s.records[id] = r
	s.mu.Unlock()
	s.announce(id)
}

// remove asks for the removal of a host.
func (s *store) remove(id string, force bool) {
	s.change(id, func(r *hostmanager.Record) {
		now := time.Now()
		r.Host.Metadata.DeletionTimestamp, r.Force = &now, force
	})
}

// image gives a host another image; empty takes it away.
func (s *store) image(id, url string) {
	s.change(id, func(r *hostmanager.Record) {
		r.Host.Spec.Image = &metal3v1alpha1.Image{URL: url}
	})
}

// get returns a record; ok is false if it is gone.
func (s *store) get(id string) (hostmanager.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	return r, ok
}

func (s *store) announce(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.add(ids...)
	}
}

func (s *store) WatchHosts(context.Context) (watcher.StringsWatcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("watch"); err != nil {
		return nil, err
	}
	w := &idWatcher{out: make(chan []string), more: make(chan struct{}, 1), ids: make(map[string]bool)}
	for id := range s.records {
		w.ids[id] = true
	}
	w.first = true
	s.watchers = append(s.watchers, w)
	w.tomb.Go(w.loop)
	return w, nil
}

func (s *store) Hosts(_ context.Context, ids []string) ([]hostmanager.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("hosts"); err != nil {
		return nil, err
	}
	var out []hostmanager.Record
	for _, id := range ids {
		if r, ok := s.records[id]; ok {
			r.Host = r.Host.Copy()
			out = append(out, r)
		}
	}
	return out, nil
}

func (s *store) Intend(_ context.Context, id string, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents++
	return s.fail("intend")
}

func (s *store) Save(_ context.Context, id string, u hostmanager.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("save"); err != nil {
		return err
	}
	r, ok := s.records[id]
	if !ok {
		return errors.NotFoundf("host %s", id)
	}
	r.Host = r.Host.Copy()
	r.Host.Status, r.Progress = u.Status, u.Progress
	for _, key := range u.ClearAnnotations {
		delete(r.Host.Metadata.Annotations, key)
	}
	s.records[id] = r
	s.saves++
	for _, e := range u.Events {
		s.events[id] = append(s.events[id], e.Reason)
	}
	if all := s.states[id]; len(all) == 0 || all[len(all)-1] != u.Status.Provisioning.State {
		s.states[id] = append(all, u.Status.Provisioning.State)
	}
	return nil
}

func (s *store) Remove(_ context.Context, id string, events []hostmanager.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("remove"); err != nil {
		return err
	}
	delete(s.records, id)
	for _, e := range events {
		s.events[id] = append(s.events[id], e.Reason)
	}
	return nil
}

// idWatcher is a StringsWatcher that is told what changed.
type idWatcher struct {
	tomb  tomb.Tomb
	out   chan []string
	more  chan struct{}
	mu    sync.Mutex
	ids   map[string]bool
	first bool
}

func (w *idWatcher) Kill()                    { w.tomb.Kill(nil) }
func (w *idWatcher) Wait() error              { return w.tomb.Wait() }
func (w *idWatcher) Changes() <-chan []string { return w.out }

func (w *idWatcher) add(ids ...string) {
	w.mu.Lock()
	for _, id := range ids {
		w.ids[id] = true
	}
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *idWatcher) loop() error {
	defer close(w.out)
	for {
		w.mu.Lock()
		var ids []string
		for id := range w.ids {
			ids = append(ids, id)
		}
		clear(w.ids)
		w.mu.Unlock()
		if len(ids) > 0 || w.first {
			w.first = false
			select {
			case w.out <- ids:
			case <-w.tomb.Dying():
				return tomb.ErrDying
			}
		}
		select {
		case <-w.more:
		case <-w.tomb.Dying():
			return tomb.ErrDying
		}
	}
}

// script is a back end that does what a test says. A method without a function
// succeeds.
type script struct {
	mu       sync.Mutex
	calls    []string
	inflight int
	most     int
	on       bool

	validate, inspect, adopt, provision, deprovision, remove, power func(ctx context.Context) (provisioner.Result, error)
}

func (s *script) factory(ctx context.Context) provisioner.Factory {
	return func(h *metal3v1alpha1.BareMetalHost, _ bmc.Credentials, _ provisioner.EventPublisher) (provisioner.Provisioner, error) {
		if h.Spec.BMC.Address == "bad" {
			return nil, errors.NotValidf("BMC address %q", "bad")
		}
		return &scripted{s, ctx, h}, nil
	}
}

// count returns how often a method was called.
func (s *script) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == method {
			n++
		}
	}
	return n
}

// all returns the calls so far.
func (s *script) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

type scripted struct {
	s   *script
	ctx context.Context
	h   *metal3v1alpha1.BareMetalHost
}

func (p *scripted) do(name string, f *func(context.Context) (provisioner.Result, error)) (provisioner.Result, error) {
	p.s.mu.Lock()
	p.s.calls = append(p.s.calls, name)
	p.s.inflight++
	p.s.most = max(p.s.most, p.s.inflight)
	p.s.mu.Unlock()
	defer func() {
		p.s.mu.Lock()
		p.s.inflight--
		p.s.mu.Unlock()
	}()
	p.s.mu.Lock()
	answer := *f
	p.s.mu.Unlock()
	if answer == nil {
		return provisioner.Result{}, nil
	}
	return answer(p.ctx)
}

func (p *scripted) ValidateManagementAccess(changed bool) (provisioner.Result, error) {
	p.h.Status.Provisioning.ID = "id"
	if changed {
		return p.do("validate changed", &p.s.validate)
	}
	return p.do("validate", &p.s.validate)
}
func (p *scripted) InspectHardware() (provisioner.Result, *metal3v1alpha1.HardwareDetails, error) {
	r, err := p.do("inspect", &p.s.inspect)
	if err != nil || r != (provisioner.Result{}) {
		return r, nil, err
	}
	return r, new(metal3v1alpha1.HardwareDetails), nil
}
func (p *scripted) UpdateHardwareState() (provisioner.Result, error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	changed := p.h.Status.PoweredOn != p.s.on
	p.h.Status.PoweredOn = p.s.on
	return provisioner.Result{Dirty: changed}, nil
}
func (p *scripted) Adopt() (provisioner.Result, error) { return p.do("adopt", &p.s.adopt) }
func (p *scripted) Provision(provisioner.HostConfigData) (provisioner.Result, error) {
	return p.do("provision", &p.s.provision)
}
func (p *scripted) Deprovision() (provisioner.Result, error) {
	return p.do("deprovision", &p.s.deprovision)
}
func (p *scripted) Delete() (provisioner.Result, error)   { return p.do("delete", &p.s.remove) }
func (p *scripted) PowerOn() (provisioner.Result, error)  { return p.setPower("on", true) }
func (p *scripted) PowerOff() (provisioner.Result, error) { return p.setPower("off", false) }
func (p *scripted) setPower(name string, on bool) (provisioner.Result, error) {
	r, err := p.do(name, &p.s.power)
	if err == nil && r == (provisioner.Result{}) {
		p.s.mu.Lock()
		p.s.on = on
		p.s.mu.Unlock()
	}
	return r, err
}

// The usual answers.
func verdict(message string) func(context.Context) (provisioner.Result, error) {
	return func(context.Context) (provisioner.Result, error) { return provisioner.Failed(message), nil }
}
func dirty(d time.Duration) func(context.Context) (provisioner.Result, error) {
	return func(context.Context) (provisioner.Result, error) { return provisioner.Again(d), nil }
}
func broken(context.Context) (provisioner.Result, error) {
	return provisioner.Result{}, errors.New("no route to host")
}
func hang(ctx context.Context) (provisioner.Result, error) {
	<-ctx.Done()
	return provisioner.Result{}, ctx.Err()
}

// start starts a manager; stop stops it.
func start(t *testing.T, c hostmanager.Config) (stop func()) {
	t.Helper()
	m, err := hostmanager.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		m.Kill()
		if err := m.Wait(); err != nil {
			t.Errorf("manager ended with %v", err)
		}
	}
}

// eventually waits, in steps and at most for limit, until ok is true.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(limit / 500)
	}
}

// in reports whether a host is in a state.
func (s *store) in(id string, want metal3v1alpha1.ProvisioningState) bool {
	r, ok := s.get(id)
	return ok && r.Host.Status.Provisioning.State == want
}

// What the store has seen, for the test's goroutine.
func (s *store) eventsOf(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.events[id]...)
}
func (s *store) statesOf(id string) []metal3v1alpha1.ProvisioningState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]metal3v1alpha1.ProvisioningState(nil), s.states[id]...)
}
func (s *store) saveCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves
}
func (s *store) intentCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intents
}

// show describes a host for a failure message.
func (s *store) show(id string) string {
	r, ok := s.get(id)
	if !ok {
		return id + " is gone"
	}
	st := r.Host.Status
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%s is %q, %q %q x%d, fails %d, progress %+v, was %v, events %v", id, st.Provisioning.State, st.ErrorType, st.ErrorMessage, st.ErrorCount, st.ProvisioningFailCount, r.Progress, s.states[id], s.events[id])
}
