package provisioner_test

import (
	"context"
	"testing"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// denied is what a result about an entity that is none of the caller's holds.
const denied = "permission denied [unauthorized access]"

// caller is an agent.
type caller struct {
	tag     string // empty for a manager that is no machine
	manager bool
}

func (c caller) AuthTag() tag.Tag {
	t, err := tag.ParseTag(c.tag)
	if err != nil {
		return nil
	}
	return t
}

func (c caller) AuthMachineAgent() bool {
	t := c.AuthTag()
	return t != nil && t.Kind() == tag.MachineKind
}

func (c caller) AuthModelManager() bool              { return c.manager }
func (c caller) ModelAccess() access.Model           { return "" }
func (c caller) ControllerAccess() access.Controller { return "" }

// manager is the caller of most tests.
var manager = caller{manager: true}

// fixture is a model with machines 0 to 4, and the facade as its manager has it.
type fixture struct {
	*provisioner.ProvisionerAPI
	t         *testing.T
	site      *statetest.Site
	st        *state.State
	resources *common.Resources
}

func newFixture(t *testing.T, cfg ...statetest.Config) *fixture {
	t.Helper()
	cfg = append(cfg, statetest.Config{})
	f := &fixture{t: t, resources: common.NewResources()}
	if cfg[0].Store == nil {
		site, _ := statetest.OpenMemory(t)
		f.site = site
		if cfg[0].ModelConfig != nil || cfg[0].ControllerConfig != nil {
			f.site = statetest.OpenWith(t, cfg[0])
		}
	}
	f.st = f.site.Default
	t.Cleanup(f.resources.StopAll)
	for range 5 {
		f.add(state.MachineSpec{})
	}
	f.ProvisionerAPI = f.as(manager)
	return f
}

// as returns the facade as another caller has it, with resources of its own.
func (f *fixture) as(c caller) *provisioner.ProvisionerAPI {
	f.t.Helper()
	resources := f.resources
	if c != manager {
		resources = common.NewResources()
		f.t.Cleanup(resources.StopAll)
	}
	api, err := provisioner.NewProvisionerAPI(f.st, resources, c)
	if err != nil {
		f.t.Fatal(err)
	}
	return api
}

func (f *fixture) add(spec state.MachineSpec) *state.Machine {
	f.t.Helper()
	return statetest.AddMachine(f.t, f.st, spec)
}

// machine returns a machine as it is now.
func (f *fixture) machine(id string) *state.Machine {
	f.t.Helper()
	m, err := f.st.Machines().Get(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// must fails the test on an error.
func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// setStatus gives a machine a status.
func (f *fixture) setStatus(id string, s status.Status, message string, data map[string]any) {
	f.t.Helper()
	f.must(f.machine(id).SetStatus(context.Background(), status.Info{Status: s, Message: message, Data: data}))
}

// provision gives a machine an instance.
func (f *fixture) provision(id, instanceID string) {
	f.t.Helper()
	f.must(f.machine(id).SetInstanceInfo(context.Background(), state.InstanceInfo{ID: instanceIDOf(instanceID), Nonce: "fake_nonce"}))
}

func entities(tags ...string) params.Entities {
	var e params.Entities
	for _, t := range tags {
		e.Entities = append(e.Entities, params.Entity{Tag: t})
	}
	return e
}

func text(e *params.Error) string {
	switch {
	case e == nil:
		return ""
	case e.Code == "":
		return e.Message
	}
	return e.Message + " [" + e.Code + "]"
}

func texts(results []params.ErrorResult) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = text(r.Error)
	}
	return out
}

// equal compares lists of texts.
func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s = %q, want %q", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: result %d is %q, want %q", what, i, got[i], want[i])
		}
	}
}

// gone is what a missing machine's result holds.
func gone(id string) string { return "machine " + id + " not found [not found]" }
