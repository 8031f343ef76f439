package state_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

func openModel(t *testing.T) *state.State {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	return site.Default
}

// get reads a machine that must be there.
func get(t *testing.T, st *state.State, id string) *state.Machine {
	t.Helper()
	m, err := st.Machines().Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks an error's text, and its kind unless that is nil.
func wantError(t *testing.T, err error, text string, kind error) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Errorf("error %q, want %q", err, text)
		return
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q is not of kind %q", err, kind)
	}
}

func units() []job.Job { return []job.Job{job.HostUnits} }

func TestAddMachineRules(t *testing.T) {
	st := openModel(t)
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, host.SetSupportedContainers(ctx, []container.Type{container.LXD}))
	for _, c := range []struct {
		name string
		spec state.MachineSpec
		want string // empty: fine
		kind error
	}{
		{name: "plain", spec: state.MachineSpec{Series: "jammy", Jobs: units()}},
		{name: "long placement", spec: state.MachineSpec{Series: "noble", Placement: strings.Repeat("z", 1025), Jobs: units()}, want: "placement of 1025 bytes (at most 1024)"},
		{name: "long group", spec: state.MachineSpec{Series: "noble", Group: strings.Repeat("z", 1025), Jobs: units()}, want: "group of 1025 bytes (at most 1024)"},
		{name: "no series", spec: state.MachineSpec{Jobs: units()}, want: "no series specified"},
		{name: "no jobs", spec: state.MachineSpec{Series: "jammy"}, want: "no jobs specified"},
		{name: "twice the same job", spec: state.MachineSpec{Series: "jammy", Jobs: slices.Repeat(units(), 2)},
			want: "duplicate job: JobHostUnits"},
		{name: "manager in an ordinary model", spec: state.MachineSpec{Series: "jammy", Jobs: []job.Job{job.ManageModel}},
			want: "controller jobs specified but not allowed"},
		{name: "instance without nonce", spec: state.MachineSpec{Series: "jammy", Jobs: units(), InstanceID: "i-1"},
			want: "cannot add a machine with an instance id and no nonce"},
		{name: "nonce without instance", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Nonce: "n"},
			want: "cannot specify a nonce without an instance id"},
		{name: "instance for a container", spec: state.MachineSpec{Series: "jammy", Jobs: units(), InstanceID: "i-1", Nonce: "n",
			ContainerType: container.LXD, Parent: "0"}, want: "cannot specify instance id for a new container"},
		{name: "no type, and the parent is missing too", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "10"},
			want: "no container type specified"},
		{name: "missing parent", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "10", ContainerType: container.LXD},
			want: "machine 10 not found", kind: errors.NotFound},
		{name: "type that the parent lacks", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "0", ContainerType: container.KVM},
			want: "machine 0 cannot host kvm containers"},
		{name: "type none", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "0", ContainerType: container.None},
			want: `"none" is not a valid container type`},
		{name: "type that the parent has", spec: state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "0", ContainerType: container.LXD}},
	} {
		t.Run(c.name, func(t *testing.T) {
			results, err := st.Machines().Add(ctx, []state.MachineSpec{c.spec})
			must(t, err)
			if c.want == "" {
				must(t, results[0].Err)
				return
			}
			wantError(t, results[0].Err, "cannot add a new machine: "+c.want, c.kind)
		})
	}
}

func TestAddReturnsOneResultForEachSpec(t *testing.T) {
	st := openModel(t)
	spec := state.MachineSpec{Series: "jammy", Jobs: units()}
	inNew := spec
	inNew.ContainerType = container.LXD
	inFirst := inNew
	inFirst.Parent = "0"
	results, err := st.Machines().Add(ctx, []state.MachineSpec{spec, {}, inNew})
	must(t, err)
	if id := results[0].Machine.Id(); id != "0" || results[1].Err == nil {
		t.Fatalf("first is %s, second %v", id, results[1].Err)
	}
	if id := results[2].Machine.Id(); id != "1/lxd/0" {
		t.Errorf("container in a new machine is %s, want 1/lxd/0", id)
	}
	results, err = st.Machines().Add(ctx, []state.MachineSpec{inFirst, spec, inFirst})
	must(t, err)
	var ids []string
	for _, r := range results {
		must(t, r.Err)
		ids = append(ids, r.Machine.Id())
	}
	if want := []string{"0/lxd/0", "2", "0/lxd/1"}; !slices.Equal(ids, want) {
		t.Errorf("added %q, want %q", ids, want)
	}
	if got := get(t, st, "0").Containers(); !slices.Equal(got, []string{"0/lxd/0", "0/lxd/1"}) {
		t.Errorf("containers of 0: %q", got)
	}
	all, err := st.Machines().All(ctx)
	must(t, err)
	ids = nil
	for _, m := range all {
		ids = append(ids, m.Id())
	}
	if want := []string{"0", "0/lxd/0", "0/lxd/1", "1", "1/lxd/0", "2"}; !slices.Equal(ids, want) {
		t.Errorf("all machines: %q, want %q", ids, want)
	}
}

func TestNewMachine(t *testing.T) {
	st := openModel(t)
	before := time.Now()
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	m = get(t, st, m.Id())
	if m.Life() != life.Alive || m.IsManager() || m.IsContainer() {
		t.Errorf("life %s, manager %v, container %v", m.Life(), m.IsManager(), m.IsContainer())
	}
	for name, s := range map[string]status.Info{"machine": m.Status(), "instance": m.InstanceStatus()} {
		if s.Status != status.Pending || s.Message != "" || len(s.Data) != 0 || s.Since.Before(before.Add(-time.Second)) {
			t.Errorf("%s status %+v, want pending since now", name, s)
		}
	}
	_, err := m.InstanceId()
	wantError(t, err, "machine 0 not provisioned", errors.NotProvisioned)
	_, err = m.Hardware()
	wantError(t, err, "instance data for machine 0 not found", errors.NotFound)
	if m.CheckProvisioned("") || m.PasswordValid("") {
		t.Error("an empty nonce or password is right")
	}
	if _, known := m.SupportedContainers(); known {
		t.Error("container types are known")
	}
}

// pickyPolicy refuses machines by placement, and knows which constraints exclude
// each other.
type pickyPolicy struct{}

// CheckConfig refuses one setting of its own.
func (pickyPolicy) CheckConfig(next, _ *config.Config) (*config.Config, error) {
	if next.SetAttrs()["flavour"] == "sour" {
		return nil, errors.NewNotValid(nil, "flavour sour is not for sale")
	}
	return next, nil
}

func (pickyPolicy) PrecheckMachine(_ context.Context, _ *state.State, s state.MachineSpec) error {
	if s.Placement == "invalid" {
		return errors.New("invalid placement is invalid")
	}
	return nil
}

func (pickyPolicy) ConstraintsValidator(context.Context, *state.State) (*constraints.Validator, error) {
	return &constraints.Validator{Conflicts: []constraints.Conflict{{Reds: []string{"mem"}, Blues: []string{"instance-type"}}}}, nil
}

func TestConstraintsAreMergedOnce(t *testing.T) {
	site := statetest.OpenWith(t, statetest.Config{Options: state.Options{Policy: pickyPolicy{}}})
	st := site.Default
	model, err := st.Model(ctx)
	must(t, err)
	parse := func(s string) constraints.Value {
		v, err := constraints.Parse(s)
		must(t, err)
		return v
	}
	must(t, model.SetConstraints(ctx, parse("mem=4G cores=2")))
	wantError(t, model.SetConstraints(ctx, parse("mem=4G instance-type=big")),
		`ambiguous constraints: "instance-type" overlaps with "mem"`, errors.NotValid)
	m := statetest.AddMachine(t, st, state.MachineSpec{Constraints: parse("instance-type=big container=none")})
	if got := m.Constraints().String(); got != "cores=2 instance-type=big" {
		t.Errorf("constraints %q", got)
	}
	must(t, model.SetConstraints(ctx, constraints.Value{}))
	if got := get(t, st, m.Id()).Constraints().String(); got != "cores=2 instance-type=big" {
		t.Errorf("constraints after the model's changed: %q", got)
	}
	results, err := st.Machines().Add(ctx, []state.MachineSpec{{Series: "jammy", Jobs: units(), Placement: "invalid"}})
	must(t, err)
	wantError(t, results[0].Err, "cannot add a new machine: invalid placement is invalid", nil)

	must(t, m.SetConstraints(ctx, parse("mem=8G")))
	must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-1", Nonce: "n"}))
	wantError(t, m.SetConstraints(ctx, parse("mem=1G")), "cannot set constraints: machine is already provisioned", nil)
	must(t, m.Destroy(ctx))
	wantError(t, m.SetConstraints(ctx, parse("mem=1G")), "cannot set constraints: not found or not alive", state.ErrNotAlive)
}

func TestTheProviderChecksSettings(t *testing.T) {
	site := statetest.OpenWith(t, statetest.Config{Options: state.Options{Policy: pickyPolicy{}}})
	schema := config.Schema{{Name: "flavour", Doc: "A taste."}}
	set := func(v string) error {
		return site.Default.ModelConfig().Update(ctx, config.Update{Set: map[string]any{"flavour": v}, Provider: schema})
	}
	must(t, set("sweet"))
	wantError(t, set("sour"), "cannot update model config: flavour sour is not for sale", errors.NotValid)
	cfg, err := site.Default.ModelConfig().Get(ctx)
	must(t, err)
	if got := cfg.SetAttrs()["flavour"]; got != "sweet" {
		t.Errorf("flavour %v after a refused change, want sweet", got)
	}
	_, err = site.Controller.Models().Add(ctx, state.ModelSpec{Name: "m", Owner: "admin",
		Config: map[string]any{"type": cfg.Type(), "flavour": "sour"}})
	wantError(t, err, `cannot add model "m": flavour sour is not for sale`, errors.NotValid)
}

func TestInstanceInfoIsSetOnce(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	const prefix = `cannot set instance data for machine "0": `
	wantError(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-1"}), prefix+"instance id and nonce cannot be empty", errors.NotValid)
	wantError(t, m.SetInstanceInfo(ctx, state.InstanceInfo{Nonce: "n"}), prefix+"instance id and nonce cannot be empty", errors.NotValid)
	mem := uint64(2048)
	info := state.InstanceInfo{ID: "i-1", Nonce: "n", Hardware: hardware.Characteristics{Mem: &mem},
		Addresses: network.NewAddresses("10.0.0.7")}
	must(t, m.SetInstanceInfo(ctx, info))
	wantError(t, m.SetInstanceInfo(ctx, info), prefix+"already set", state.ErrAlreadySet)
	m = get(t, st, "0")
	id, err := m.InstanceId()
	must(t, err)
	hw, err := m.Hardware()
	must(t, err)
	if id != "i-1" || *hw.Mem != mem || !m.CheckProvisioned("n") || m.CheckProvisioned("N") || len(m.Addresses()) != 1 {
		t.Errorf("instance %q, hardware %+v, addresses %v", id, hw, m.Addresses())
	}
	for i, end := range []func(*state.Machine) error{
		func(m *state.Machine) error { return m.Destroy(ctx) },
		func(m *state.Machine) error { return m.EnsureDead(ctx) },
	} {
		m := statetest.AddMachine(t, st, state.MachineSpec{})
		must(t, end(m))
		if err := m.SetInstanceInfo(ctx, info); !errors.Is(err, state.ErrNotAlive) || !strings.HasSuffix(err.Error(), ": not found or not alive") {
			t.Errorf("case %d: %v, want not found or not alive", i, err)
		}
	}
	injected := statetest.AddMachine(t, st, state.MachineSpec{InstanceID: "i-9", Nonce: "manual:x"})
	if err := injected.SetInstanceInfo(ctx, info); !errors.Is(err, state.ErrAlreadySet) {
		t.Errorf("an injected machine's instance was replaced: %v", err)
	}
}

func TestLife(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	for range 2 {
		statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	}
	const hosting = `machine 0 is hosting containers "0/lxd/0,0/lxd/1"`
	wantError(t, host.Destroy(ctx), hosting, kind.HasContainers)
	wantError(t, host.EnsureDead(ctx), hosting, kind.HasContainers)
	for _, id := range []string{"0/lxd/0", "0/lxd/1"} {
		c := get(t, st, id)
		wantError(t, c.Remove(ctx), "cannot remove machine "+id+": machine is not dead", state.ErrNotDead)
		must(t, c.Destroy(ctx))
		must(t, c.Destroy(ctx)) // there already
		wantError(t, c.Remove(ctx), "cannot remove machine "+id+": machine is not dead", state.ErrNotDead)
		must(t, c.EnsureDead(ctx))
		must(t, c.Destroy(ctx)) // past it
		if got := get(t, st, id).Life(); got != life.Dead {
			t.Errorf("%s is %s, want dead", id, got)
		}
		wantError(t, host.EnsureDead(ctx), `machine 0 is hosting containers "`+strings.Join(get(t, st, "0").Containers(), ",")+`"`, nil)
		must(t, c.Remove(ctx))
		must(t, c.Remove(ctx)) // gone
		must(t, c.EnsureDead(ctx))
		must(t, c.Destroy(ctx))
	}
	must(t, host.EnsureDead(ctx)) // straight from alive
	must(t, host.Remove(ctx))
	if _, err := st.Machines().Get(ctx, "0"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Get after Remove = %v", err)
	}

	manager := get(t, site.Management, "0")
	wantError(t, manager.Destroy(ctx), "machine 0 is required by the model", state.ErrRequired)
	wantError(t, manager.EnsureDead(ctx), "machine 0 is required by the model", state.ErrRequired)
	wantError(t, manager.ForceDestroy(ctx), "machine is required by the model", state.ErrRequired)
	in := statetest.AddMachine(t, site.Management, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	wantError(t, manager.Destroy(ctx), `machine 0 is hosting containers "0/lxd/0"`, kind.HasContainers) // containers come first
	must(t, in.EnsureDead(ctx))
}

func TestIdsAreNeverUsedAgain(t *testing.T) {
	st := openModel(t)
	remove := func(m *state.Machine) {
		must(t, m.EnsureDead(ctx))
		must(t, m.Remove(ctx))
	}
	remove(statetest.AddMachine(t, st, state.MachineSpec{}))
	if m := statetest.AddMachine(t, st, state.MachineSpec{}); m.Id() != "1" {
		t.Errorf("second machine is %s, want 1", m.Id())
	}
	remove(statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "1"}))
	if c := statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "1"}); c.Id() != "1/lxd/1" {
		t.Errorf("second container is %s, want 1/lxd/1", c.Id())
	}
	if c := statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.KVM, Parent: "1"}); c.Id() != "1/kvm/0" {
		t.Errorf("first of another type is %s, want 1/kvm/0", c.Id())
	}
}

func TestContainerOnDeadHost(t *testing.T) {
	st := openModel(t)
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, host.EnsureDead(ctx))
	c := statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	if err := host.Remove(ctx); !errors.Is(err, kind.HasContainers) {
		t.Errorf("Remove of a dead host with a container = %v", err)
	}
	must(t, c.EnsureDead(ctx))
	must(t, c.Remove(ctx))
	must(t, host.Remove(ctx))
}

func TestSupportedContainers(t *testing.T) {
	st := openModel(t)
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	for _, typ := range []container.Type{container.LXD, container.KVM, container.KVM} {
		statetest.AddMachine(t, st, state.MachineSpec{ContainerType: typ, Parent: "0"})
	}
	must(t, get(t, st, "0/kvm/1").SetStatus(ctx, status.Info{Status: status.Started}))
	wantError(t, host.SetSupportedContainers(ctx, nil), "at least one valid container type is required", errors.NotValid)
	wantError(t, host.SetSupportedContainers(ctx, []container.Type{"lxd", "none"}), `"none" is not a valid container type`, errors.NotValid)
	if _, known := get(t, st, "0").SupportedContainers(); known {
		t.Error("a refused call changed something")
	}
	must(t, host.SetSupportedContainers(ctx, []container.Type{"lxd", "odd"}))
	if types, known := get(t, st, "0").SupportedContainers(); !known || !slices.Equal(types, []container.Type{"lxd", "odd"}) {
		t.Errorf("supported %q, known %v", types, known)
	}
	got := get(t, st, "0/kvm/0").Status()
	if got.Status != status.Error || got.Message != "unsupported container" || got.Data["type"] != "kvm" {
		t.Errorf("pending container of another type has status %+v", got)
	}
	for id, want := range map[string]status.Status{"0/lxd/0": status.Pending, "0/kvm/1": status.Started} {
		if got := get(t, st, id).Status().Status; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	must(t, host.SetNoSupportedContainers(ctx))
	if types, known := get(t, st, "0").SupportedContainers(); !known || len(types) != 0 {
		t.Errorf("supported %q, known %v; want none, known", types, known)
	}
	dead := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, dead.EnsureDead(ctx))
	wantError(t, dead.SetNoSupportedContainers(ctx), "not found or dead", kind.Dead)
}

func TestAgentPassword(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	wantError(t, m.SetPassword(ctx, "four"), "password is only 4 bytes long, and is not a valid Agent password", errors.NotValid)
	const first, second = "first-password-24-bytes-long", "second-password-24-bytes-long"
	must(t, m.SetPassword(ctx, first))
	if m = get(t, st, "0"); !m.PasswordValid(first) || m.PasswordValid(second) {
		t.Error("the first password does not work alone")
	}
	must(t, m.Destroy(ctx))
	must(t, m.SetPassword(ctx, second)) // dying is fine
	if m = get(t, st, "0"); m.PasswordValid(first) || !m.PasswordValid(second) {
		t.Error("the second password does not work alone")
	}
	must(t, m.EnsureDead(ctx))
	err := m.SetPassword(ctx, first)
	wantError(t, err, "cannot set password of machine 0: not found or dead", nil)
	if errors.Is(err, kind.Dead) {
		t.Error("the error has kept its kind")
	}
}

func TestAddresses(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, m.SetMachineAddresses(ctx, network.NewAddresses("127.0.0.1", "10.0.0.2", "8.8.8.8")))
	must(t, m.SetProviderAddresses(ctx, network.NewAddresses("10.0.0.1", "10.0.0.2")))
	m = get(t, st, "0")
	var all []string
	for _, a := range m.Addresses() {
		all = append(all, a.Value)
	}
	if want := []string{"10.0.0.1", "10.0.0.2", "127.0.0.1", "8.8.8.8"}; !slices.Equal(all, want) {
		t.Errorf("addresses %q, want %q", all, want)
	}
	public, _ := m.PublicAddress()
	private, _ := m.PrivateAddress()
	if public.Value != "8.8.8.8" || private.Value != "10.0.0.2" { // chosen first, and still as good
		t.Errorf("public %s, private %s", public.Value, private.Value)
	}
	must(t, m.SetProviderAddresses(ctx, network.NewAddresses("10.0.0.9")))
	must(t, m.SetMachineAddresses(ctx, nil))
	m = get(t, st, "0")
	if private, _ = m.PrivateAddress(); private.Value != "10.0.0.9" {
		t.Errorf("private %s after the old one is gone", private.Value)
	}
	must(t, m.EnsureDead(ctx))
	if err := m.SetMachineAddresses(ctx, network.NewAddresses("10.0.0.3")); !errors.Is(err, kind.Dead) {
		t.Errorf("addresses of a dead machine: %v", err)
	}
}

func TestInGroup(t *testing.T) {
	st := openModel(t)
	for _, group := range []string{"web", "db", "", "web"} {
		statetest.AddMachine(t, st, state.MachineSpec{Group: group})
	}
	found, err := st.Machines().InGroup(ctx, "web")
	must(t, err)
	if len(found) != 2 || found[0].Id() != "0" || found[1].Id() != "3" {
		t.Errorf("group web: %v, want machines 0 and 3", found)
	}
}

func TestManyAtOnce(t *testing.T) {
	site := statetest.Open(t)
	st := site.Default
	statetest.AddMachine(t, st, state.MachineSpec{})
	const n = 60
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			container := state.MachineSpec{Series: "jammy", Jobs: units(), Parent: "0", ContainerType: "lxd"}
			results, err := st.Machines().Add(ctx, []state.MachineSpec{{Series: "jammy", Jobs: units()}, container})
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range results {
				if r.Err != nil {
					t.Error(r.Err)
					continue
				}
				for _, end := range []func(context.Context) error{r.Machine.Destroy, r.Machine.EnsureDead, r.Machine.Remove} {
					if err := end(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	all, err := st.Machines().All(ctx)
	must(t, err)
	if len(all) != 1 || len(all[0].Containers()) != 0 {
		t.Errorf("%d machines are left, the first with containers %q", len(all), all[0].Containers())
	}
	if m := statetest.AddMachine(t, st, state.MachineSpec{}); m.Id() != strconv.Itoa(n+1) {
		t.Errorf("next machine is %s, want %d", m.Id(), n+1)
	}
}

func TestAFailedWriteChangesNoSnapshot(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	var full atomic.Bool
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if full.Load() && c.Method == "Apply" {
			return errors.New("disk full")
		}
		return nil
	})
	st := statetest.OpenWith(t, statetest.Config{Store: tap}).Default
	host := statetest.AddMachine(t, st, state.MachineSpec{})
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	inside, before := get(t, st, "0/lxd/0"), get(t, st, "0")
	full.Store(true)
	for _, write := range []error{
		host.SetNoSupportedContainers(ctx),
		inside.SetStatus(ctx, status.Info{Status: status.Started}),
		inside.EnsureDead(ctx),
		inside.SetMachineAddresses(ctx, network.NewAddresses("10.0.0.1")),
	} {
		if write == nil {
			t.Error("a write to a full disk succeeded")
		}
	}
	for _, m := range []*state.Machine{inside, get(t, st, "0/lxd/0"), before, get(t, st, "0")} {
		_, known := m.SupportedContainers()
		if m.Status().Status != status.Pending || m.Life() != life.Alive || len(m.Addresses()) != 0 || known {
			t.Errorf("%s is %s, %s, with %v", m.Id(), m.Status().Status, m.Life(), m.Addresses())
		}
	}
}
