package hostmanager_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/worker/hostmanager"
)

// script is a back end that does what a test says. A method without a function
// succeeds.
type script struct {
	mu       sync.Mutex
	calls    []string
	inflight int
	most     int
	on       bool
	step     string
	details  *metal3v1alpha1.HardwareDetails

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
func (p *scripted) Progress() string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.step
}
func (p *scripted) Details() *metal3v1alpha1.HardwareDetails { return p.s.details }
func (p *scripted) Deprovision() (provisioner.Result, error) {
	return p.do("deprovision", &p.s.deprovision)
}
func (p *scripted) Delete() (provisioner.Result, error)   { return p.do("delete", &p.s.remove) }
func (p *scripted) PowerOn() (provisioner.Result, error)  { return p.setPower("on", true) }
func (p *scripted) PowerOff() (provisioner.Result, error) { return p.setPower("off", false) }
func (p *scripted) setPower(name string, on bool) (provisioner.Result, error) {
	if provisioner.IsRetry(p.h, metal3v1alpha1.PowerManagementError) {
		name += " hard"
	}
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
