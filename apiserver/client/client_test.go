package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/client"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/watch"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open returns the facade of a caller in the default model of a new site.
func open(t *testing.T, who facadetest.Caller) (*client.Client, common.Connection, *statetest.Site) {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	conn := facadetest.Connect(t, who)
	c, err := client.New(site.Default, conn)
	must(t, err)
	return c, conn, site
}

func TestOnlyPeopleWhoMayReadGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Manager, facadetest.Agent("machine-1"), {}, {Tag: "user-bob", Controller: access.Superuser}} {
		if _, err := client.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	if _, err := client.NewMachineManager(site.Default, facadetest.Connect(t, facadetest.Reader)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("NewMachineManager for a reader = %v, want it denied", err)
	}
}

func TestReadersChangeNothing(t *testing.T) {
	c, _, site := open(t, facadetest.Reader)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	calls := map[string]func() error{
		"AddMachines":          func() error { _, err := c.AddMachines(ctx, params.AddMachines{}); return err },
		"AddMachinesV2":        func() error { _, err := c.AddMachinesV2(ctx, params.AddMachines{}); return err },
		"InjectMachines":       func() error { _, err := c.InjectMachines(ctx, params.AddMachines{}); return err },
		"DestroyMachines":      func() error { return c.DestroyMachines(ctx, params.DestroyMachines{MachineNames: []string{"0"}}) },
		"RetryProvisioning":    func() error { _, err := c.RetryProvisioning(ctx, facadetest.Entities("machine-0")); return err },
		"SetModelAgentVersion": func() error { return c.SetModelAgentVersion(ctx, params.SetModelAgentVersion{Version: "2.0.0"}) },
		"SetModelConstraints":  func() error { return c.SetModelConstraints(ctx, params.SetConstraints{}) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s by a reader = %v, want it denied", name, err)
		}
	}
}

func TestFullStatusOfAnEmptyModel(t *testing.T) {
	c, _, site := open(t, facadetest.Reader)
	s, err := c.FullStatus(ctx, params.StatusParams{})
	must(t, err)
	if s.Model.Name != "default" || s.Model.UUID != site.Default.ModelUUID() || s.Model.CloudTag != "cloud-simulated" || s.Model.Version != "2.0.0" ||
		s.Machines == nil || len(s.Machines) != 0 || s.Applications == nil || s.Relations != nil {
		t.Errorf("FullStatus = %+v", s)
	}
}

func TestFullStatus(t *testing.T) {
	c, _, site := open(t, facadetest.Reader)
	mem := uint64(1024)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{Constraints: constraints.Value{Mem: &mem}})
	inner := statetest.AddMachine(t, site.Default, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	statetest.AddMachine(t, site.Default, state.MachineSpec{ContainerType: container.KVM, Parent: "0"})
	statetest.AddMachine(t, site.Default, state.MachineSpec{ContainerType: container.LXD, Parent: inner.Id()})
	arch := "amd64"
	must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-0", Nonce: "n", Hardware: hardware.Characteristics{Arch: &arch, Mem: &mem},
		Addresses: network.NewAddresses("10.0.0.7", "127.0.0.1", "fe80::1", "203.0.113.7")}))
	must(t, m.SetStatus(ctx, status.Info{Status: status.Started, Message: "fine", Data: map[string]any{"k": "v"}}))
	must(t, m.SetInstanceStatus(ctx, status.Info{Status: status.Running}))
	s, err := c.FullStatus(ctx, params.StatusParams{})
	must(t, err)
	got := s.Machines["0"]
	if len(s.Machines) != 1 || got.ID != "0" || got.InstanceID != "i-0" || got.Series != "jammy" || got.Base.Name != "ubuntu" || got.Base.Channel != "22.04/stable" ||
		got.Hardware != "arch=amd64 mem=1024M" || got.Constraints != "mem=1024M" || strings.Join(got.Jobs, " ") != "JobHostUnits" || got.WantsVote {
		t.Errorf("machine 0 = %+v", got)
	}
	if got.DNSName != "203.0.113.7" || strings.Join(got.IPAddresses, " ") != "10.0.0.7 203.0.113.7" && strings.Join(got.IPAddresses, " ") != "203.0.113.7 10.0.0.7" {
		t.Errorf("addresses of machine 0 = %s, %v", got.DNSName, got.IPAddresses)
	}
	if a := got.AgentStatus; a.Status != "started" || a.Info != "fine" || a.Data == nil || len(a.Data) != 0 || a.Since == nil || a.Life != "" {
		t.Errorf("agent of machine 0 = %+v", a)
	}
	if got.InstanceStatus.Status != "running" {
		t.Errorf("instance of machine 0 = %+v", got.InstanceStatus)
	}
	if len(got.Containers) != 2 || len(got.Containers["0/lxd/0"].Containers) != 1 || got.Containers["0/lxd/0"].Containers["0/lxd/0/lxd/0"].ID == "" {
		t.Errorf("containers of machine 0 = %+v", got.Containers)
	}
	if i := got.Containers["0/kvm/0"]; i.InstanceID != "pending" || i.DNSName != "" || i.IPAddresses != nil || i.AgentStatus.Status != "pending" || i.Containers == nil {
		t.Errorf("container without an instance = %+v", i)
	}
}

func TestFullStatusShowsAgentsThatAreGone(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	conn := facadetest.Connect(t, facadetest.Reader)
	gone := facadetest.Gone{}
	conn.Presence = gone
	c, err := client.New(site.Default, conn)
	must(t, err)
	tests := []struct {
		name        string
		provisioned bool
		status      status.Info
		dead        bool
		want        string
	}{
		{"started", true, status.Info{Status: status.Started}, false, "down: agent is not communicating with the server"},
		{"pending", true, status.Info{}, false, "pending: "},
		{"stopped", true, status.Info{Status: status.Stopped}, false, "stopped: "},
		{"failed to start", false, status.Info{Status: status.Error, Message: "no room"}, false, "error: no room"},
		{"dead", true, status.Info{Status: status.Started}, true, "started: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
			gone[m.Tag().String()] = true
			if test.provisioned {
				must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}))
			}
			if test.status.Status != "" {
				must(t, m.SetStatus(ctx, test.status))
			}
			if test.dead {
				must(t, m.EnsureDead(ctx))
			}
			s, err := c.FullStatus(ctx, params.StatusParams{})
			must(t, err)
			a := s.Machines[m.Id()].AgentStatus
			if got := a.Status + ": " + a.Info; got != test.want {
				t.Errorf("agent = %s, want %s", got, test.want)
			}
			if test.dead != (a.Life == "dead") {
				t.Errorf("life = %q", a.Life)
			}
		})
	}
}

func TestFullStatusPatterns(t *testing.T) {
	c, _, site := open(t, facadetest.Reader)
	for range 3 {
		statetest.AddMachine(t, site.Default, state.MachineSpec{})
	}
	statetest.AddMachine(t, site.Default, state.MachineSpec{ContainerType: container.LXD, Parent: "1"})
	two, err := site.Default.Machines().Get(ctx, "2")
	must(t, err)
	must(t, two.SetInstanceInfo(ctx, state.InstanceInfo{ID: "rack-7", Nonce: "n", Addresses: network.NewAddresses("10.9.9.9")}))
	must(t, two.SetStatus(ctx, status.Info{Status: status.Started}))
	tests := []struct {
		patterns string
		want     string // top-level machines
	}{
		{"0", "0"}, {"1/lxd/0", "1"}, {"*", "0 1 2"}, {"started", "2"}, {"pending", "0 1 2"}, {"10.9.*", "2"}, {"rack-7", "2"}, {"0 2", "0 2"}, {"nothing", ""},
	}
	for _, test := range tests {
		s, err := c.FullStatus(ctx, params.StatusParams{Patterns: strings.Fields(test.patterns)})
		must(t, err)
		var got []string
		for _, id := range []string{"0", "1", "2"} {
			if _, ok := s.Machines[id]; ok {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("FullStatus(%s) shows %q, want %q", test.patterns, got, test.want)
		}
	}
	if _, err := c.FullStatus(ctx, params.StatusParams{Patterns: []string{"["}}); !errors.Is(err, errors.NotValid) {
		t.Errorf("FullStatus of a bad pattern = %v, want not valid", err)
	}
}

func TestAddMachines(t *testing.T) {
	c, _, site := open(t, facadetest.Writer)
	jobs := []string{"JobHostUnits"}
	mem := uint64(4096)
	first, err := c.AddMachines(ctx, params.AddMachines{Machines: []params.AddMachineParams{{Jobs: jobs}}})
	if err != nil || first.Machines[0].Machine != "0" {
		t.Fatalf("AddMachines = %+v, %v, want machine 0", first, err)
	}
	got, err := c.AddMachinesV2(ctx, params.AddMachines{Machines: []params.AddMachineParams{
		{Jobs: jobs, Series: "jammy"},
		{Jobs: jobs, Base: &params.Base{Name: "ubuntu", Channel: "22.04/stable"}, Constraints: constraints.Value{Mem: &mem}, Group: "web"},
		{Jobs: jobs, ContainerType: "lxd", ParentID: "0"},
		{Jobs: jobs, Placement: &params.Placement{Scope: "lxd"}},
		{Jobs: jobs, Placement: &params.Placement{Scope: "default", Directive: "zone=b"}},
		{Jobs: jobs, Placement: &params.Placement{Scope: site.Default.ModelUUID(), Directive: "zone=c"}},
		{Jobs: jobs, InstanceID: "i-there", Nonce: "manual:x"},
		{Jobs: jobs, ParentID: "0"},
		{Jobs: jobs, ContainerType: "lxd", Placement: &params.Placement{Scope: "lxd"}},
		{Jobs: jobs, Placement: &params.Placement{Scope: "other", Directive: "x"}},
		{Jobs: []string{"JobNothing"}},
		{Jobs: nil},
		{Jobs: jobs, InstanceID: "i-there"},
		{Jobs: jobs, ContainerType: "lxd", ParentID: "42"},
		{Jobs: jobs, ContainerType: "jail"},
		{Jobs: jobs, Series: "dapper"},
		{Jobs: jobs, Series: "noble", Base: &params.Base{Name: "ubuntu", Channel: "22.04"}},
		{Jobs: []string{"JobManageModel"}},
	}})
	must(t, err)
	var out []string
	for _, r := range got.Machines {
		out = append(out, r.Machine+facadetest.Text(r.Error))
	}
	facadetest.Equal(t, "AddMachines", out, "1", "2", "0/lxd/0", "3/lxd/0", "4", "5", "6",
		"parent machine specified without container type",
		"container type and placement are mutually exclusive",
		`invalid model name "other"`,
		`invalid machine job "JobNothing"`,
		"cannot add a new machine: no jobs specified",
		"cannot add a new machine: cannot add a machine with an instance id and no nonce",
		"cannot add a new machine: machine 42 not found [not found]",
		`invalid container type "jail"`,
		`series "dapper" not valid`,
		`series "noble" with base "ubuntu@22.04" not valid`,
		"cannot add a new machine: controller jobs specified but not allowed")
	for id, want := range map[string]string{"4": "zone=b", "5": "zone=c", "0": ""} {
		if m, err := site.Default.Machines().Get(ctx, id); err != nil || m.Placement() != want {
			t.Errorf("machine %s: %v, placement %q, want %q", id, err, m.Placement(), want)
		}
	}
	two, err := site.Default.Machines().Get(ctx, "2")
	must(t, err)
	if two.Constraints().String() != "mem=4096M" || two.Group() != "web" || two.Series() != "jammy" {
		t.Errorf("machine 2 = %s, group %s, series %s", two.Constraints(), two.Group(), two.Series())
	}
}

func TestMachineManagerLooksAtDisks(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m, err := client.NewMachineManager(site.Default, facadetest.Connect(t, facadetest.Writer))
	must(t, err)
	jobs := []string{"JobHostUnits"}
	got, err := m.AddMachines(ctx, params.AddMachines{Machines: []params.AddMachineParams{
		{Jobs: jobs}, {Jobs: jobs, Disks: []params.Disk{{Size: 1}}}, {Jobs: jobs, Disks: []params.Disk{{Size: 1, Count: 2}, {Pool: "fast", Size: 2, Count: 1}}},
		{Jobs: jobs, Disks: []params.Disk{{Count: 1}}}, {Jobs: jobs, Disks: []params.Disk{{Size: 1, Count: 1 << 60}}},
		{Jobs: jobs, ContainerType: "lxd", Disks: []params.Disk{{Size: 1, Count: 1}}},
	}})
	must(t, err)
	var out []string
	for _, r := range got.Machines {
		out = append(out, r.Machine+facadetest.Text(r.Error))
	}
	facadetest.Equal(t, "AddMachines", out, "0", "invalid volume params: count not specified", "1",
		"cannot add a new machine: invalid volume params: size not specified",
		"cannot add a new machine: more than 64 volumes for one machine",
		"cannot add a new machine: cannot add volumes to a container")
	one, err := site.Default.Machines().Get(ctx, "1")
	must(t, err)
	if v := one.Volumes(); len(v) != 3 || v[0].ID != "0" || v[2].ID != "2" || v[2].Pool != "fast" || v[2].Size != 2 {
		t.Errorf("volumes = %+v, want three", v)
	}
}

func TestDestroyMachines(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	c, err := client.New(site.Management, facadetest.Connect(t, facadetest.Writer))
	must(t, err)
	for range 3 {
		statetest.AddMachine(t, site.Management, state.MachineSpec{})
	}
	statetest.AddMachine(t, site.Management, state.MachineSpec{ContainerType: container.LXD, Parent: "3"})
	tests := []struct {
		name  string
		ids   []string
		force bool
		want  string
	}{
		{"some", []string{"0", "1", "3"}, false, `some machines were not destroyed: machine 0 is required by the model; machine 3 is hosting containers "3/lxd/0"`},
		{"none", []string{"0", "42"}, false, "no machines were destroyed: machine 0 is required by the model; machine 42 does not exist"},
		{"one that is dying", []string{"1"}, false, ""},
		{"by force", []string{"0", "3"}, true, "some machines were not destroyed: machine is required by the model"},
		{"nothing", nil, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := c.DestroyMachines(ctx, params.DestroyMachines{MachineNames: test.ids, Force: test.force})
			if got := facadetest.Text(params.ErrorOf(err)); got != test.want {
				t.Errorf("DestroyMachines = %q, want %q", got, test.want)
			}
		})
	}
	if m, err := site.Management.Machines().Get(ctx, "1"); err != nil || m.Life() != "dying" {
		t.Errorf("machine 1 is %s, %v, want dying", m.Life(), err)
	}
}

func TestRetryProvisioning(t *testing.T) {
	c, _, site := open(t, facadetest.Writer)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	must(t, m.SetStatus(ctx, status.Info{Status: status.Error, Message: "no room"}))
	got, err := c.RetryProvisioning(ctx, facadetest.Entities("machine-0", "machine-1", "machine-42", "rubbish"))
	must(t, err)
	facadetest.Equal(t, "RetryProvisioning", facadetest.Texts(got.Results), "", "machine 1 is not in an error state",
		"machine 42 not found [not found]", facadetest.Denied)
	must(t, m.Refresh(ctx))
	if s := m.Status(); s.Data["transient"] != true || s.Message != "no room" {
		t.Errorf("status = %+v, want it transient", s)
	}
}

func TestModelConstraints(t *testing.T) {
	c, _, _ := open(t, facadetest.Writer)
	mem := uint64(2048)
	must(t, c.SetModelConstraints(ctx, params.SetConstraints{Constraints: constraints.Value{Mem: &mem}}))
	got, err := c.GetModelConstraints(ctx)
	if err != nil || got.Constraints.String() != "mem=2048M" {
		t.Errorf("GetModelConstraints = %s, %v", got.Constraints, err)
	}
}

func TestModelInfo(t *testing.T) {
	c, _, site := open(t, facadetest.Reader)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	_, err := site.Users().Add(ctx, state.UserSpec{Name: "reader"})
	must(t, err)
	model, err := site.Default.Model(ctx)
	must(t, err)
	must(t, model.Grant(ctx, "reader", access.Read))
	info, err := c.ModelInfo(ctx)
	must(t, err)
	if info.Name != "default" || info.OwnerTag != "user-admin" || info.ProviderType != "simulated" || info.Life != "alive" || info.IsController || len(info.Machines) != 1 {
		t.Errorf("ModelInfo = %+v", info)
	}
	if len(info.Users) != 1 || info.Users[0].UserName != "reader" {
		t.Errorf("users told to a reader = %+v, want the reader alone", info.Users)
	}
	all, err := client.New(site.Default, facadetest.Connect(t, facadetest.Superuser))
	must(t, err)
	if info, err = all.ModelInfo(ctx); err != nil || len(info.Users) != 2 {
		t.Errorf("users told to a superuser = %+v, %v, want both", info.Users, err)
	}
}

func TestWatchAll(t *testing.T) {
	c, conn, site := open(t, facadetest.Reader)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	id, err := c.WatchAll()
	must(t, err)
	conn.Object = id.WatcherID
	w, err := watch.NewAllWatcher(conn)
	must(t, err)
	next := func() string {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		r, err := w.Next(ctx)
		must(t, err)
		var out []string
		for _, d := range r.Deltas {
			verb := "change"
			if d.Removed {
				verb = "remove"
			}
			switch e := d.Entity.(type) {
			case *params.MachineUpdate:
				out = append(out, strings.TrimSpace(strings.Join([]string{verb, "machine", e.ID, e.Life, e.AgentStatus.Current, e.InstanceID}, " ")))
			case *params.ModelUpdate:
				out = append(out, strings.Join([]string{verb, "model", e.Name, e.Life}, " "))
			}
		}
		return strings.Join(out, "; ")
	}
	if got, want := next(), "change model default alive; change machine 0 alive pending"; got != want {
		t.Errorf("first event = %q, want %q", got, want)
	}
	must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-0", Nonce: "n"}))
	if got, want := next(), "change machine 0 alive pending i-0"; got != want {
		t.Errorf("event = %q, want %q", got, want)
	}
	must(t, m.EnsureDead(ctx))
	if got, want := next(), "change machine 0 dead pending i-0"; got != want {
		t.Errorf("event = %q, want %q", got, want)
	}
	must(t, m.Remove(ctx))
	if got, want := next(), "remove machine 0"; got != want {
		t.Errorf("event = %q, want %q", got, want)
	}
	must(t, w.Stop())
	if _, err := w.Next(ctx); facadetest.Text(params.ErrorOf(err)) != "watcher has been stopped [stopped]" {
		t.Errorf("Next after Stop = %v, want stopped", err)
	}
}
