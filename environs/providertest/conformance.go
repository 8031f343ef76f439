// Package providertest says in one suite what every provider has to do.
package providertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

// The sites and models that the suite uses.
const (
	Site       = "5175e000-0bad-400d-8000-000000000001"
	OtherSite  = "5175e000-0bad-400d-8000-000000000002"
	Model      = "deadbeef-0bad-400d-8000-000000000001"
	OtherModel = "deadbeef-0bad-400d-8000-000000000002"
)

// deadline ends every call of the suite that takes too long.
const deadline = 2 * time.Minute

// Config says how to get at the provider under test.
type Config struct {
	// New returns a provider on a back end of its own that has no instances
	// and room for ten, and the settings that its models need beside name,
	// type and UUID.
	New func(t *testing.T) (environs.Provider, map[string]any)
	// Type is the provider's name in the registry.
	Type string
	// Base is the operating system of all machines; zero means the default.
	Base base.Base
	// BadPlacement is a directive that the provider refuses.
	BadPlacement string
	// Unmeetable are constraints that the provider has no hardware for; empty
	// means that it takes any.
	Unmeetable string
}

// RunConformance checks that a provider keeps the contract of package environs.
func RunConformance(t *testing.T, c Config) {
	if c.Base.IsZero() {
		c.Base = base.Default()
	}
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"StartedInstanceIsListedWithItsOwner", (*suite).startedInstanceIsListed},
		{"RepeatedStartGivesTheSameInstance", (*suite).repeatedStart},
		{"SecondInstanceForAMachineIsRefused", (*suite).secondInstance},
		{"StoppedInstanceIsGone", (*suite).stoppedInstanceIsGone},
		{"StoppingUnknownInstancesDoesNoHarm", (*suite).stopUnknown},
		{"OtherModelsAreOutOfReach", (*suite).otherModels},
		{"InstancesKeepsTheOrderAsked", (*suite).instances},
		{"ConcurrentStartsAreApart", (*suite).concurrentStarts},
		{"ConcurrentStartsOfOneMachineMakeOne", (*suite).concurrentStartsOfOne},
		{"CancelledStartLeavesNothingUnowned", (*suite).cancelledStart},
		{"BadRequestsArePermanent", (*suite).badRequests},
		{"DestroyStopsEverything", (*suite).destroy},
		{"SettingsAreChecked", (*suite).settings},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			s := &suite{T: t, ctx: ctx, config: c}
			s.provider, s.attrs = c.New(t)
			test.run(s)
		})
	}
}

type suite struct {
	*testing.T
	ctx      context.Context // ends with the test
	config   Config
	provider environs.Provider
	attrs    map[string]any
}

// settingsOf returns the settings of a model of the provider.
func (s *suite) settingsOf(model string, more map[string]any) *config.Config {
	s.Helper()
	attrs := map[string]any{config.Name: "m", config.Type: s.config.Type, config.UUID: model}
	for _, m := range []map[string]any{s.attrs, more} {
		for k, v := range m {
			attrs[k] = v
		}
	}
	cfg, err := config.New(attrs)
	if err != nil {
		s.Fatal(err)
	}
	if cfg, err = s.provider.Validate(cfg, nil); err != nil {
		s.Fatalf("Validate: %v", err)
	}
	return cfg
}

func (s *suite) open(site, model string) environs.Environ {
	s.Helper()
	e, err := s.provider.Open(s.ctx, environs.OpenParams{ControllerUUID: site, Config: s.settingsOf(model, nil)})
	if err != nil {
		s.Fatalf("Open: %v", err)
	}
	return e
}

// Params returns what is needed to start an instance for a machine.
func Params(site, model, machine string, b base.Base) environs.StartInstanceParams {
	return environs.StartInstanceParams{
		Owner: environs.Owner{ControllerUUID: site, ModelUUID: model, MachineID: machine},
		Base:  b,
		InstanceConfig: &environs.InstanceConfig{
			MachineID: machine, Nonce: "machine-0:nonce-of-" + machine, Password: "hush-" + strings.Repeat("x", 24),
			APIAddresses: []string{"127.0.0.1:17070"}, CACert: "CA",
			ModelUUID: model, ControllerUUID: site, Jobs: []job.Job{job.HostUnits},
		},
	}
}

func (s *suite) params(machine string) environs.StartInstanceParams {
	return Params(Site, Model, machine, s.config.Base)
}

func (s *suite) start(e environs.Environ, p environs.StartInstanceParams) environs.Instance {
	s.Helper()
	r, err := e.StartInstance(s.ctx, p)
	if err != nil {
		s.Fatalf("StartInstance(%s): %v", p.Owner.MachineID, err)
	}
	if r.Instance.ID == "" || r.Existed {
		s.Fatalf("StartInstance(%s) = %+v, want a new instance with an id", p.Owner.MachineID, r)
	}
	return r.Instance
}

func (s *suite) list(e environs.Environ) map[instance.ID]environs.Instance {
	s.Helper()
	all, err := e.AllInstances(s.ctx)
	if err != nil {
		s.Fatalf("AllInstances: %v", err)
	}
	out := make(map[instance.ID]environs.Instance, len(all))
	for _, i := range all {
		out[i.ID] = i
	}
	if len(out) != len(all) {
		s.Fatalf("AllInstances names an instance twice: %v", all)
	}
	return out
}

func (s *suite) stop(e environs.Environ, ids ...instance.ID) {
	s.Helper()
	results, err := e.StopInstances(s.ctx, ids)
	if err != nil || len(results) != len(ids) {
		s.Fatalf("StopInstances(%q) = %v, %v, want %d results", ids, results, err, len(ids))
	}
	for i, err := range results {
		if err != nil {
			s.Errorf("StopInstances(%q): %v", ids[i], err)
		}
	}
}

func (s *suite) startedInstanceIsListed() {
	e := s.open(Site, Model)
	if got := s.list(e); len(got) != 0 {
		s.Fatalf("AllInstances = %v before any start", got)
	}
	p := s.params("0")
	started := s.start(e, p)
	got, ok := s.list(e)[started.ID]
	if !ok {
		s.Fatalf("%s is not listed", started.ID)
	}
	if got.Owner != p.Owner {
		s.Errorf("owner = %+v, want %+v", got.Owner, p.Owner)
	}
	if got.Nonce != "" && got.Nonce != p.InstanceConfig.Nonce {
		s.Errorf("nonce = %q, want %q", got.Nonce, p.InstanceConfig.Nonce)
	}
}

func (s *suite) repeatedStart() {
	e := s.open(Site, Model)
	first := s.start(e, s.params("0"))
	r, err := e.StartInstance(s.ctx, s.params("0"))
	if err != nil || r.Instance.ID != first.ID || !r.Existed {
		s.Errorf("StartInstance again = %q, existed %v, %v, want %q", r.Instance.ID, r.Existed, err, first.ID)
	}
	if got := s.list(e); len(got) != 1 {
		s.Errorf("%d instances are listed, want 1", len(got))
	}
}

func (s *suite) secondInstance() {
	e := s.open(Site, Model)
	first := s.start(e, s.params("0"))
	p := s.params("0")
	p.InstanceConfig.Nonce = "another"
	if r, err := e.StartInstance(s.ctx, p); !errors.Is(err, errors.AlreadyExists) {
		s.Errorf("StartInstance with another nonce = %q, %v, want AlreadyExists", r.Instance.ID, err)
	}
	s.stop(e, first.ID)
	s.start(e, p)
}

func (s *suite) stoppedInstanceIsGone() {
	e := s.open(Site, Model)
	a, b := s.start(e, s.params("0")), s.start(e, s.params("1"))
	s.stop(e, a.ID)
	got := s.list(e)
	if _, there := got[a.ID]; there || len(got) != 1 || got[b.ID].IsZero() {
		s.Errorf("AllInstances = %v, want only %s", got, b.ID)
	}
}

func (s *suite) stopUnknown() {
	e := s.open(Site, Model)
	a := s.start(e, s.params("0"))
	s.stop(e)
	s.stop(e, "no-such-instance", a.ID, a.ID, "")
	s.stop(e, a.ID)
	if got := s.list(e); len(got) != 0 {
		s.Errorf("AllInstances = %v, want none", got)
	}
}

func (s *suite) otherModels() {
	mine := s.open(Site, Model)
	a := s.start(mine, s.params("0"))
	for _, o := range []struct{ site, model string }{{Site, OtherModel}, {OtherSite, Model}} {
		other := s.open(o.site, o.model)
		b := s.start(other, Params(o.site, o.model, "0", s.config.Base))
		if got := s.list(other); len(got) != 1 || got[b.ID].IsZero() {
			s.Errorf("model %s of site %s lists %v, want only %s", o.model, o.site, got, b.ID)
		}
		s.stop(other, a.ID)
		if err := other.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}
	if got := s.list(mine); len(got) != 1 || got[a.ID].IsZero() {
		s.Errorf("AllInstances = %v, want only %s", got, a.ID)
	}
}

func (s *suite) instances() {
	e := s.open(Site, Model)
	a, b := s.start(e, s.params("0")), s.start(e, s.params("1"))
	for _, c := range []struct {
		ids  []instance.ID
		want []instance.ID
		err  error
	}{
		{},
		{ids: []instance.ID{b.ID, a.ID}, want: []instance.ID{b.ID, a.ID}},
		{ids: []instance.ID{"no-such", a.ID}, want: []instance.ID{"", a.ID}, err: environs.ErrPartialInstances},
		{ids: []instance.ID{"no-such"}, err: environs.ErrNoInstances},
	} {
		got, err := e.Instances(s.ctx, c.ids)
		if c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) {
			s.Errorf("Instances(%q): %v, want %v", c.ids, err, c.err)
			continue
		}
		var ids []instance.ID
		for _, i := range got {
			ids = append(ids, i.ID)
		}
		if c.want != nil && !slices.Equal(ids, c.want) {
			s.Errorf("Instances(%q) = %q, want %q", c.ids, ids, c.want)
		}
	}
}

func (s *suite) concurrentStarts() {
	e := s.open(Site, Model)
	const n = 8
	ids := make([]instance.ID, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r, err := e.StartInstance(s.ctx, s.params(fmt.Sprint(i)))
			if err != nil {
				s.Errorf("StartInstance(%d): %v", i, err)
			}
			ids[i] = r.Instance.ID
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if got := slices.Compact(ids); len(got) != n {
		s.Errorf("%d machines got instances %q", n, got)
	}
	if got := s.list(e); len(got) != n {
		s.Errorf("%d instances are listed, want %d", len(got), n)
	}
}

func (s *suite) concurrentStartsOfOne() {
	e := s.open(Site, Model)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			p := s.params("0")
			p.InstanceConfig.Nonce = fmt.Sprint("nonce-", i%2)
			// Some succeed and some are refused: that depends on who is first.
			if _, err := e.StartInstance(s.ctx, p); err != nil && s.ctx.Err() != nil {
				s.Errorf("StartInstance: %v", err)
			}
		})
	}
	wg.Wait()
	if got := s.list(e); len(got) > 1 {
		s.Errorf("machine 0 has %d instances", len(got))
	}
}

func (s *suite) cancelledStart() {
	e := s.open(Site, Model)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	p := s.params("0")
	r, err := e.StartInstance(ctx, p)
	for id, i := range s.list(e) {
		if i.Owner != p.Owner {
			s.Errorf("instance %s is owned by %+v, want %+v", id, i.Owner, p.Owner)
		}
		if err == nil && r.Instance.ID != id {
			s.Errorf("StartInstance returned %q, and %q is there", r.Instance.ID, id)
		}
	}
	// Whatever came of it, another try gets there.
	if _, err := e.StartInstance(s.ctx, p); err != nil {
		s.Errorf("StartInstance after a cancelled one: %v", err)
	}
}

func (s *suite) badRequests() {
	e := s.open(Site, Model)
	for name, spoil := range map[string]func(*environs.StartInstanceParams){
		"no owner":        func(p *environs.StartInstanceParams) { p.Owner = environs.Owner{} },
		"another model":   func(p *environs.StartInstanceParams) { *p = Params(Site, OtherModel, "0", s.config.Base) },
		"no nonce":        func(p *environs.StartInstanceParams) { p.InstanceConfig.Nonce = "" },
		"bad placement":   func(p *environs.StartInstanceParams) { p.Placement = s.config.BadPlacement },
		"bad constraints": func(p *environs.StartInstanceParams) { p.Constraints = s.unmeetable() },
	} {
		p := s.params("0")
		spoil(&p)
		if name == "bad placement" && p.Placement == "" || name == "bad constraints" && p.Constraints.IsEmpty() {
			continue
		}
		_, err := e.StartInstance(s.ctx, p)
		if err == nil || environs.ClassOf(err) != environs.Permanent {
			s.Errorf("%s: StartInstance = %v, want a permanent error", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hush-") {
			s.Errorf("%s: a password is in %v", name, err)
		}
	}
	check := environs.PrecheckParams{Base: s.config.Base}
	if err := e.Precheck(s.ctx, check); err != nil {
		s.Errorf("Precheck = %v, want nil", err)
	}
	if check.Placement = s.config.BadPlacement; check.Placement != "" {
		if err := e.Precheck(s.ctx, check); !errors.Is(err, errors.NotValid) {
			s.Errorf("Precheck of placement %q = %v, want NotValid", check.Placement, err)
		}
	}
	if got := s.list(e); len(got) != 0 {
		s.Errorf("AllInstances = %v after refused starts", got)
	}
}

func (s *suite) unmeetable() constraints.Value {
	v, err := constraints.Parse(s.config.Unmeetable)
	if err != nil {
		s.Fatal(err)
	}
	return v
}

func (s *suite) destroy() {
	e := s.open(Site, Model)
	s.start(e, s.params("0"))
	s.start(e, s.params("1"))
	for range 2 { // the second time there is nothing left to do
		if err := e.Destroy(s.ctx); err != nil {
			s.Fatalf("Destroy: %v", err)
		}
		if got := s.list(e); len(got) != 0 {
			s.Fatalf("AllInstances = %v, want none", got)
		}
	}
}

func (s *suite) settings() {
	e := s.open(Site, Model)
	if err := e.SetConfig(s.ctx, s.settingsOf(Model, map[string]any{config.ProvisionWorkers: 3})); err != nil {
		s.Errorf("SetConfig: %v", err)
	}
	if v, err := e.ConstraintsValidator(s.ctx); err != nil || v == nil {
		s.Errorf("ConstraintsValidator = %v, %v", v, err)
	}
	general := config.Fields()
	for _, f := range s.provider.Schema() {
		if _, clash := general.Field(f.Name); clash {
			s.Errorf("setting %s is a general one", f.Name)
		}
		if !strings.HasSuffix(f.Doc, ".") {
			s.Errorf("setting %s: Doc = %q, want a sentence", f.Name, f.Doc)
		}
	}
	if err := e.MaintainInstance(s.ctx, "0", s.start(e, s.params("0")).ID); err != nil {
		s.Errorf("MaintainInstance: %v", err)
	}
}
