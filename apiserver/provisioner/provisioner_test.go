package provisioner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

func instanceIDOf(id string) instance.ID { return instance.ID(id) }

// Cases: provisioner/Callers
func TestOnlyAgentsAndManagersGetTheFacade(t *testing.T) {
	f := newFixture(t)
	for _, c := range []caller{{}, {tag: "user-admin"}, {tag: "unit-mysql-0"}} {
		api, err := provisioner.NewProvisionerAPI(f.st, f.resources, c)
		if !errors.Is(err, errors.Unauthorized) || err.Error() != "permission denied" || api != nil {
			t.Errorf("NewProvisionerAPI for %+v = %v, %v, want it denied", c, api, err)
		}
	}
}

func TestSetPasswords(t *testing.T) {
	f := newFixture(t)
	var args params.EntityPasswords
	for i := range 5 {
		args.Changes = append(args.Changes, params.EntityPassword{
			Tag: fmt.Sprintf("machine-%d", i), Password: params.Secret(fmt.Sprintf("xxx%d-1234567890123457890", i)),
		})
	}
	args.Changes = append(args.Changes,
		params.EntityPassword{Tag: "machine-42", Password: "foo"},
		params.EntityPassword{Tag: "unit-foo-0", Password: "zzz"},
		params.EntityPassword{Tag: "application-bar", Password: "abc"},
		params.EntityPassword{Tag: "machine-1", Password: "xxx1"})
	got, err := f.SetPasswords(t.Context(), args)
	f.must(err)
	equal(t, "SetPasswords", texts(got.Results), "", "", "", "", "", gone("42"), denied, denied,
		"password is only 4 bytes long, and is not a valid Agent password")
	for i := range 5 {
		if m := f.machine(fmt.Sprint(i)); !m.PasswordValid(fmt.Sprintf("xxx%d-1234567890123457890", i)) {
			t.Errorf("the password of machine %d does not validate", i)
		}
	}
}

func lives(r params.LifeResults) []string {
	var out []string
	for _, r := range r.Results {
		out = append(out, r.Life+text(r.Error))
	}
	return out
}

func TestLifeAsMachineAgent(t *testing.T) {
	f := newFixture(t)
	f.must(f.machine("0").EnsureDead(context.Background()))
	for range 3 {
		f.add(state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	}
	f.must(f.machine("0/lxd/1").EnsureDead(context.Background()))
	got, err := f.as(caller{tag: "machine-0"}).Life(t.Context(), entities("machine-0", "machine-1", "machine-0-lxd-0",
		"machine-0-lxd-1", "machine-0-lxd-2", "machine-42", "unit-foo-0", "application-bar"))
	f.must(err)
	equal(t, "Life", lives(got), "dead", denied, "alive", "dead", "alive", denied, denied, denied)
}

func TestLifeAsManager(t *testing.T) {
	f := newFixture(t)
	f.must(f.machine("1").EnsureDead(context.Background()))
	all := entities("machine-0", "machine-1", "machine-2", "machine-42", "unit-foo-0", "application-bar")
	got, err := f.Life(t.Context(), all)
	f.must(err)
	equal(t, "Life", lives(got), "alive", "dead", "alive", gone("42"), denied, denied)
	f.must(f.machine("1").Remove(context.Background()))
	got, err = f.Life(t.Context(), entities("machine-1"))
	f.must(err)
	equal(t, "Life", lives(got), gone("1"))
}

func TestRemove(t *testing.T) {
	f := newFixture(t)
	f.must(f.machine("1").EnsureDead(context.Background()))
	f.must(f.machine("3").Destroy(context.Background()))
	got, err := f.Remove(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-42", "unit-foo-0", "application-bar", "machine-1", "machine-3"))
	f.must(err)
	equal(t, "Remove", texts(got.Results), `cannot remove entity "machine-0": still alive`, "", `cannot remove entity "machine-2": still alive`,
		gone("42"), denied, denied, gone("1"), "cannot remove machine 3: machine is not dead")
}

func TestSetStatus(t *testing.T) {
	f := newFixture(t)
	f.setStatus("0", status.Started, "blah", nil)
	f.setStatus("1", status.Stopped, "foo", nil)
	f.setStatus("2", status.Error, "not really", nil)
	f.provision("3", "i-3")
	got, err := f.SetStatus(t.Context(), params.SetStatus{Entities: []params.EntityStatusArgs{
		{Tag: "machine-0", Status: "error", Info: "not really", Data: map[string]any{"foo": "bar"}},
		{Tag: "machine-1", Status: "stopped", Info: "foobar"},
		{Tag: "machine-2", Status: "started", Info: "again"},
		{Tag: "machine-42", Status: "started", Info: "blah"},
		{Tag: "unit-foo-0", Status: "stopped", Info: "foobar"},
		{Tag: "application-bar", Status: "stopped", Info: "foobar"},
		{Tag: "not a tag"},
		{Tag: "machine-4", Status: "error"},
		{Tag: "machine-4", Status: "down"},
		{Tag: "machine-4", Status: "vliegkat"},
		{Tag: "machine-3", Status: "pending"},
		{Tag: "machine-4", Status: "pending"},
	}})
	f.must(err)
	equal(t, "SetStatus", texts(got.Results), "", "", "", gone("42"), denied, denied, `"not a tag" is not a valid tag`,
		`cannot set status "error" without info`, `cannot set status "down"`, `cannot set invalid status "vliegkat"`, `cannot set status "pending"`, "")
	all, err := f.Status(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-42", "unit-foo-0", "garbage"))
	f.must(err)
	var out []string
	for _, r := range all.Results {
		out = append(out, fmt.Sprint(r.Status, "/", r.Info, "/", r.Data, "/", r.Since != nil, "/", text(r.Error)))
	}
	equal(t, "Status", out, "error/not really/map[foo:bar]/true/", "stopped/foobar/map[]/true/", "started/again/map[]/true/",
		"//map[]/false/"+gone("42"), "//map[]/false/"+denied, `//map[]/false/"garbage" is not a valid tag`)
}

func TestMachinesWithTransientErrors(t *testing.T) {
	f := newFixture(t)
	f.setStatus("0", status.Started, "blah", nil)
	f.setStatus("1", status.Error, "transient error", map[string]any{"transient": true, "foo": "bar"})
	f.setStatus("2", status.Error, "error", map[string]any{"transient": false})
	f.setStatus("3", status.Error, "error", nil)
	f.setStatus("4", status.Error, "error", map[string]any{"transient": true})
	f.provision("4", "i-am")
	for _, c := range []caller{manager, {tag: "machine-1"}} {
		got, err := f.as(c).MachinesWithTransientErrors()
		f.must(err)
		if len(got.Results) != 1 {
			t.Fatalf("MachinesWithTransientErrors of %+v = %+v, want one", c, got.Results)
		}
		r := got.Results[0]
		if r.ID != "1" || r.Life != "alive" || r.Status != "error" || r.Info != "transient error" || r.Data["transient"] != true || r.Data["foo"] != "bar" || r.Since != nil || r.Error != nil {
			t.Errorf("MachinesWithTransientErrors of %+v = %+v", c, r)
		}
	}
	got, err := f.as(caller{tag: "machine-2"}).MachinesWithTransientErrors()
	if err != nil || got.Results != nil {
		t.Errorf("MachinesWithTransientErrors of an agent without any = %+v, %v, want null", got.Results, err)
	}
}

func TestUpdateStatusIsForErrors(t *testing.T) {
	f := newFixture(t)
	f.setStatus("0", status.Error, "no room", map[string]any{"a": "b"})
	got, err := f.UpdateStatus(t.Context(), params.SetStatus{Entities: []params.EntityStatusArgs{
		{Tag: "machine-0", Status: "started", Info: "ignored", Data: map[string]any{"transient": true}},
		{Tag: "machine-1", Data: map[string]any{"transient": true}},
		{Tag: "garbage", Data: map[string]any{"transient": true}},
	}})
	f.must(err)
	equal(t, "UpdateStatus", texts(got.Results), "", "machine 1 is not in an error state", denied)
	if s := f.machine("0").Status(); s.Status != status.Error || s.Message != "no room" || s.Data["a"] != "b" || s.Data["transient"] != true {
		t.Errorf("status = %+v, want the data merged", s)
	}
}

func TestEnsureDead(t *testing.T) {
	f := newFixture(t)
	f.must(f.machine("1").EnsureDead(context.Background()))
	f.add(state.MachineSpec{ContainerType: container.LXD, Parent: "3"})
	got, err := f.EnsureDead(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-42", "unit-foo-0", "application-bar", "machine-3"))
	f.must(err)
	equal(t, "EnsureDead", texts(got.Results), "", "", "", gone("42"), denied, denied, `machine 3 is hosting containers "3/lxd/0"`)
	for _, id := range []string{"0", "1", "2"} {
		if l := f.machine(id).Life(); l != life.Dead {
			t.Errorf("machine %s is %s, want dead", id, l)
		}
	}
	_, err = f.EnsureDead(t.Context(), entities("machine-4", "garbage"))
	if err == nil || err.Error() != `"garbage" is not a valid tag` || f.machine("4").Life() != life.Dead {
		t.Errorf("EnsureDead with garbage = %v, want it to fail, with what stands before done", err)
	}
}

func TestManagersDoNotDie(t *testing.T) {
	f := newFixture(t)
	f.st = f.site.Management
	got, err := f.as(caller{tag: "machine-0", manager: true}).EnsureDead(t.Context(), entities("machine-0"))
	f.must(err)
	equal(t, "EnsureDead", texts(got.Results), "machine 0 is required by the model")
}

func TestSeries(t *testing.T) {
	f := newFixture(t)
	m := f.add(state.MachineSpec{Series: "noble"})
	got, err := f.Series(entities("machine-0", m.Tag().String(), "machine-2", "machine-42", "unit-foo-0", "application-bar"))
	f.must(err)
	var out []string
	for _, r := range got.Results {
		out = append(out, r.Result+text(r.Error))
	}
	equal(t, "Series", out, "jammy", "noble", "jammy", gone("42"), denied, denied)
}

func TestConstraints(t *testing.T) {
	f := newFixture(t)
	cores, mem := uint64(123), uint64(8192)
	m := f.add(state.MachineSpec{Constraints: constraints.Value{Cores: &cores, Mem: &mem}})
	got, err := f.Constraints(entities("machine-0", m.Tag().String(), "machine-42", "unit-foo-0", "application-bar"))
	f.must(err)
	var out []string
	for _, r := range got.Results {
		out = append(out, r.Constraints.String()+text(r.Error))
	}
	equal(t, "Constraints", out, "", "cores=123 mem=8192M", gone("42"), denied, denied)
}

func TestDistributionGroup(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"5", "6", "7"} { // a group of three, one of them without an instance
		f.add(state.MachineSpec{Group: "web"})
		if id != "6" {
			f.provision(id, "inst-"+string('z'-id[0]+'0'))
		}
	}
	groups := func(api *provisioner.ProvisionerAPI, tags ...string) []string {
		got, err := api.DistributionGroup(entities(tags...))
		f.must(err)
		var out []string
		for _, r := range got.Results {
			if (r.Result == nil) != (r.Error != nil) {
				t.Errorf("result %+v, want [] without and null with an error", r)
			}
			out = append(out, fmt.Sprint(r.Result)+text(r.Error))
		}
		return out
	}
	equal(t, "DistributionGroup", groups(f.ProvisionerAPI, "machine-0", "machine-5", "machine-6", "machine-42", "machine-0-lxd-99", "unit-foo-0"),
		"[]", "[inst-s inst-u]", "[inst-s inst-u]", "[]"+gone("42"), "[]"+denied, "[]"+denied)
	f.add(state.MachineSpec{ContainerType: container.LXD, Parent: "1"})
	equal(t, "DistributionGroup", groups(f.as(caller{tag: "machine-1"}), "machine-0", "machine-1", "machine-42", "machine-0-lxd-99", "machine-1-lxd-99", "machine-1-lxd-99-lxd-100"),
		"[]"+denied, "[]", "[]"+denied, "[]"+denied, "[]"+gone("1/lxd/99"), "[]"+denied)
	f.st = f.site.Management
	for range 2 {
		f.add(state.MachineSpec{Jobs: []job.Job{job.ManageModel}})
	}
	f.provision("2", "i-two")
	zero, err := f.machine("0").InstanceId()
	f.must(err)
	equal(t, "DistributionGroup of managers", groups(f.as(caller{tag: "machine-0", manager: true}), "machine-1"), fmt.Sprintf("[%s i-two]", zero))
}

func TestProvisioningInfo(t *testing.T) {
	f := newFixture(t, statetest.Config{
		ModelConfig:      map[string]any{"resource-tags": "owner=ops"},
		ControllerConfig: map[string]any{"api-port": 17070},
	})
	cores, mem := uint64(123), uint64(8192)
	m := f.add(state.MachineSpec{Constraints: constraints.Value{Cores: &cores, Mem: &mem}, Placement: "zone=b"})
	got, err := f.ProvisioningInfo(entities("machine-0", m.Tag().String(), "machine-42", "unit-foo-0"))
	f.must(err)
	plain, other := got.Results[0].Result, got.Results[1].Result
	if plain.Series != "jammy" || plain.Placement != "" || !slices.Equal(plain.Jobs, []string{"JobHostUnits"}) {
		t.Errorf("ProvisioningInfo = %+v", plain)
	}
	want := map[string]string{"owner": "ops", "juju-model-uuid": f.st.ModelUUID(), "juju-controller-uuid": f.site.ControllerUUID()}
	if fmt.Sprint(plain.Tags) != fmt.Sprint(want) {
		t.Errorf("tags = %v, want %v", plain.Tags, want)
	}
	if plain.ControllerConfig["controller-uuid"] != f.site.ControllerUUID() || fmt.Sprint(plain.ControllerConfig["api-port"]) != "17070" {
		t.Errorf("controller config = %v", plain.ControllerConfig)
	}
	if other.Constraints.String() != "cores=123 mem=8192M" || other.Placement != "zone=b" {
		t.Errorf("ProvisioningInfo = %+v, want its constraints and placement", other)
	}
	equal(t, "ProvisioningInfo", []string{text(got.Results[2].Error), text(got.Results[3].Error)}, gone("42"), denied)
	f.st = f.site.Management
	got, err = f.as(caller{tag: "machine-0", manager: true}).ProvisioningInfo(entities("machine-0"))
	f.must(err)
	if got.Results[0].Result.Tags["juju-is-controller"] != "true" {
		t.Errorf("tags of a manager = %v", got.Results[0].Result.Tags)
	}
}

func TestProvisioningInfoPermissions(t *testing.T) {
	f := newFixture(t)
	got, err := f.as(caller{tag: "machine-0"}).ProvisioningInfo(entities("machine-0", "machine-0-lxd-0", "machine-42", "machine-1", "application-bar"))
	f.must(err)
	var out []string
	for _, r := range got.Results {
		out = append(out, text(r.Error))
	}
	equal(t, "ProvisioningInfo", out, "", gone("0/lxd/0"), denied, denied, denied)
}

func TestSetInstanceInfo(t *testing.T) {
	f := newFixture(t)
	f.provision("0", "i-am")
	f.must(f.machine("3").Destroy(context.Background()))
	arch, mem := "amd64", uint64(4096)
	got, err := f.SetInstanceInfo(params.InstancesInfo{Machines: []params.InstanceInfo{
		{Tag: "machine-0", InstanceID: "i-was", Nonce: "fake_nonce"},
		{Tag: "machine-1", InstanceID: "i-will", Nonce: "fake_nonce", Characteristics: &hardware.Characteristics{Arch: &arch, Mem: &mem},
			NetworkConfig: []params.NetworkConfig{{InterfaceName: "eth0", CIDR: "10.0.0.0/8", Address: "10.1.2.3"}, {InterfaceName: "eth1"}}},
		{Tag: "machine-2", InstanceID: "i-am-too", Nonce: "fake"},
		{Tag: "machine-42"}, {Tag: "unit-foo-0"}, {Tag: "application-bar"},
		{Tag: "machine-3", InstanceID: "i-late", Nonce: "fake"},
		{Tag: "machine-4", InstanceID: "i-4"},
		{Tag: "machine-4", InstanceID: "i-4", Nonce: "n", Volumes: []params.Volume{{VolumeTag: "volume-1065"}}},
		{Tag: "machine-4", InstanceID: "i-4", Nonce: "n", Volumes: []params.Volume{{VolumeTag: "x"}}},
		{Tag: "machine-4", InstanceID: "i-4", Nonce: "n", Volumes: []params.Volume{{}}},
		{Tag: "machine-1", InstanceID: "i-will", Nonce: "fake_nonce"},
	}})
	f.must(err)
	equal(t, "SetInstanceInfo", texts(got.Results),
		`cannot record provisioning info for "i-was": cannot set instance data for machine "0": already set`, "", "",
		gone("42"), denied, denied,
		`cannot record provisioning info for "i-late": cannot set instance data for machine "3": not found or not alive`,
		`cannot record provisioning info for "i-4": cannot set instance data for machine "4": instance id and nonce cannot be empty`,
		`cannot record provisioning info for "i-4": cannot set info for volume "1065": volume "1065" not found [not found]`,
		`"x" is not a valid tag`, "Tag is empty",
		`cannot record provisioning info for "i-will": cannot set instance data for machine "1": already set`)
	m := f.machine("1")
	if id, err := m.InstanceId(); err != nil || id != "i-will" || !m.CheckProvisioned("fake_nonce") {
		t.Errorf("machine 1 has instance %q, %v", id, err)
	}
	if h, err := m.Hardware(); err != nil || h.String() != "arch=amd64 mem=4096M" {
		t.Errorf("hardware = %s, %v", h, err)
	}
	if a := m.Addresses(); len(a) != 1 || a[0].Value != "10.1.2.3" {
		t.Errorf("addresses = %v, want what the provider told", a)
	}
	if f.machine("4").IsProvisioned() {
		t.Error("machine 4 was provisioned by a call that failed")
	}
}

func TestInstanceId(t *testing.T) {
	f := newFixture(t)
	f.provision("0", "i-am")
	f.provision("1", "i-am-not")
	got, err := f.InstanceId(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-42", "unit-foo-0", "application-bar"))
	f.must(err)
	var out []string
	for _, r := range got.Results {
		out = append(out, r.Result+text(r.Error))
	}
	equal(t, "InstanceId", out, "i-am", "i-am-not", "machine 2 not provisioned [not provisioned]", gone("42"), denied, denied)
}

func TestInstanceStatus(t *testing.T) {
	f := newFixture(t)
	got, err := f.SetInstanceStatus(params.SetStatus{Entities: []params.EntityStatusArgs{
		{Tag: "machine-0", Status: "allocating", Info: "asking", Data: map[string]any{"n": "1"}},
		{Tag: "machine-1", Status: "provisioning error", Info: "no room", Data: map[string]any{"transient": true}},
		{Tag: "machine-2", Status: "provisioning error"},
		{Tag: "machine-42", Status: "running"},
		{Tag: "unit-foo-0", Status: "running"},
		{Tag: "garbage", Status: "running"},
		{Tag: "machine-0-lxd-0", Status: "running"},
	}})
	f.must(err)
	equal(t, "SetInstanceStatus", texts(got.Results), "", "", `cannot set status "error" without info`, gone("42"),
		`"unit-foo-0" is not a valid machine tag`, `"garbage" is not a valid tag`, denied)
	if s := f.machine("1").Status(); s.Status != status.Error || s.Message != "no room" || s.Data["transient"] != true {
		t.Errorf("status of machine 1 = %+v, want the provisioning error", s)
	}
	all, err := f.InstanceStatus(entities("machine-0", "machine-2", "machine-3", "machine-42", "unit-foo-0", "garbage"))
	f.must(err)
	var out []string
	for _, r := range all.Results {
		out = append(out, r.Status+text(r.Error))
	}
	equal(t, "InstanceStatus", out, "allocating", "provisioning error", "pending", gone("42"), `"unit-foo-0" is not a valid machine tag`, `"garbage" is not a valid tag`)
}

func TestMarkMachinesForRemoval(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"0", "2"} {
		f.must(f.machine(id).EnsureDead(context.Background()))
	}
	got, err := f.MarkMachinesForRemoval(entities("machine-2", "machine-100", "machine-0", "machine-1", "machine-0-lxd-5", "application-thing", "machine-2"))
	f.must(err)
	equal(t, "MarkMachinesForRemoval", texts(got.Results), "", gone("100"), "", "cannot remove machine 1: machine is not dead", denied,
		`"application-thing" is not a valid machine tag`, "")
	ids, err := f.st.Machines().MarkedForRemoval(context.Background())
	if slices.Sort(ids); err != nil || !slices.Equal(ids, []string{"0", "2"}) {
		t.Errorf("marked are %q, %v, want 0 and 2", ids, err)
	}
}

func TestSetSupportedContainers(t *testing.T) {
	f := newFixture(t)
	f.add(state.MachineSpec{ContainerType: container.KVM, Parent: "0"})
	f.add(state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	f.must(f.machine("3").EnsureDead(context.Background()))
	got, err := f.SetSupportedContainers(params.MachineContainersParams{Params: []params.MachineContainers{
		{MachineTag: "machine-0", ContainerTypes: []string{"lxd"}},
		{MachineTag: "machine-1", ContainerTypes: []string{"lxd", "kvm"}},
		{MachineTag: "machine-2"},
		{MachineTag: "machine-3", ContainerTypes: []string{"lxd"}},
		{MachineTag: "machine-4", ContainerTypes: []string{"none"}},
		{MachineTag: "garbage"},
	}})
	f.must(err)
	equal(t, "SetSupportedContainers", texts(got.Results), "", "", "", "not found or dead [dead]", `"none" is not a valid container type`, denied)
	for id, want := range map[string]string{"0": "[lxd] true", "1": "[lxd kvm] true", "2": "[] true", "4": "[] false"} {
		types, known := f.machine(id).SupportedContainers()
		if got := fmt.Sprint(types, known); got != want {
			t.Errorf("machine %s supports %s, want %s", id, got, want)
		}
	}
	if s := f.machine("0/kvm/0").Status(); s.Status != status.Error || s.Message != "unsupported container" || s.Data["type"] != "kvm" {
		t.Errorf("status of a container that cannot be = %+v", s)
	}
	if s := f.machine("0/lxd/0").Status(); s.Status != status.Pending {
		t.Errorf("status of a container that can be = %+v", s)
	}
	got, err = f.as(caller{tag: "machine-0"}).SetSupportedContainers(params.MachineContainersParams{Params: []params.MachineContainers{
		{MachineTag: "machine-0", ContainerTypes: []string{"lxd"}}, {MachineTag: "machine-1", ContainerTypes: []string{"lxd"}}, {MachineTag: "machine-42"},
	}})
	f.must(err)
	equal(t, "SetSupportedContainers of an agent", texts(got.Results), "", denied, denied)
}

func TestWatchContainers(t *testing.T) {
	f := newFixture(t)
	for _, watch := range []func(params.WatchContainers) (params.StringsWatchResults, error){f.WatchContainers, f.WatchAllContainers} {
		before := f.resources.Count()
		got, err := watch(params.WatchContainers{Params: []params.WatchContainer{
			{MachineTag: "machine-0", ContainerType: "lxd"}, {MachineTag: "machine-1", ContainerType: "kvm"},
			{MachineTag: "machine-42"}, {MachineTag: "unit-foo-0"}, {MachineTag: "application-bar"},
		}})
		f.must(err)
		var out []string
		for _, r := range got.Results {
			if len(r.Changes) != 0 {
				t.Errorf("changes = %q, want none", r.Changes)
			}
			out = append(out, text(r.Error))
			if w, ok := f.resources.Get(r.StringsWatcherID).(watcher.StringsWatcher); ok != (r.Error == nil) || ok && len(w.Changes()) != 0 {
				t.Errorf("watcher %q: want it registered, and its first event consumed", r.StringsWatcherID)
			}
		}
		equal(t, "WatchContainers", out, "", "", gone("42"), denied, denied)
		if n := f.resources.Count() - before; n != 2 {
			t.Errorf("%d watchers registered, want 2", n)
		}
	}
}

func TestWatchModelMachines(t *testing.T) {
	f := newFixture(t)
	got, err := f.WatchModelMachines(t.Context())
	if slices.Sort(got.Changes); err != nil || got.StringsWatcherID != "1" || !slices.Equal(got.Changes, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("WatchModelMachines = %+v, %v, want all machines under id 1", got, err)
	}
	got, err = f.as(caller{tag: "machine-1"}).WatchModelMachines(t.Context())
	if !errors.Is(err, errors.Unauthorized) || got.StringsWatcherID != "" {
		t.Errorf("WatchModelMachines of an agent = %+v, %v, want it denied", got, err)
	}
}

func TestConfigMethods(t *testing.T) {
	f := newFixture(t, statetest.Config{
		ModelConfig: map[string]any{
			"http-proxy": "http://proxy.example.com:9000", "apt-mirror": "http://example.mirror.com", "authorized-keys": "ssh-rsa k",
		},
		ControllerConfig: map[string]any{"ca-cert": "a certificate"},
	})
	c, err := f.ContainerConfig()
	f.must(err)
	if c.ProviderType != statetest.ProviderType || c.Proxy.HTTP != "http://proxy.example.com:9000" || c.AptProxy.HTTP != c.Proxy.HTTP ||
		c.AptMirror != "http://example.mirror.com" || !c.SSLHostnameVerification || !c.EnableOSRefreshUpdate || !c.EnableOSUpgrade || c.AuthorizedKeys != "ssh-rsa k" {
		t.Errorf("ContainerConfig = %+v", c)
	}
	m, err := f.ContainerManagerConfig(params.ContainerManagerConfigParams{Type: "kvm"})
	if err != nil || len(m.ManagerConfig) != 1 || m.ManagerConfig["model-uuid"] != f.st.ModelUUID() {
		t.Errorf("ContainerManagerConfig = %v, %v", m, err)
	}
	for _, api := range []*provisioner.ProvisionerAPI{f.ProvisionerAPI, f.as(caller{tag: "machine-1"})} {
		all, err := api.ModelConfig(t.Context())
		if err != nil || all.Config["http-proxy"] != "http://proxy.example.com:9000" || all.Config["uuid"] != f.st.ModelUUID() {
			t.Errorf("ModelConfig = %v, %v", all.Config, err)
		}
	}
	cert, err := f.CACert(t.Context())
	if err != nil || string(cert.Result) != "a certificate" {
		t.Errorf("CACert = %s, %v", cert.Result, err)
	}
	site, err := f.ControllerConfig()
	if err != nil || site.Config["controller-uuid"] != f.site.ControllerUUID() {
		t.Errorf("ControllerConfig = %v, %v", site, err)
	}
	w, err := f.WatchForModelConfigChanges(t.Context())
	f.must(err)
	if changes := f.resources.Get(w.NotifyWatcherID).(watcher.NotifyWatcher).Changes(); len(changes) != 0 {
		t.Error("the first event of the config watcher was not consumed")
	}
	if _, err := f.StateAddresses(t.Context()); err == nil || err.Error() != "no controller machines with addresses found" {
		t.Errorf("StateAddresses = %v, want none known", err)
	}
	tools, err := f.FindTools(t.Context(), params.FindToolsParams{Major: -1, Minor: -1})
	if err != nil || text(tools.Error) != "tools not found [not found]" {
		t.Errorf("FindTools = %+v, %v, want none", tools, err)
	}
}

func TestAddressesOfContainersAreNotAllocated(t *testing.T) {
	f := newFixture(t)
	calls := map[string]func() error{
		"Prepare": func() error { _, err := f.PrepareContainerInterfaceInfo(entities("machine-0-lxd-0")); return err },
		"Get":     func() error { _, err := f.GetContainerInterfaceInfo(entities("machine-0-lxd-0")); return err },
		"Release": func() error { _, err := f.ReleaseContainerAddresses(entities("machine-0-lxd-0")); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, errors.NotSupported) {
			t.Errorf("%s = %v, want not supported", name, err)
		}
	}
}

func TestBulkCallsReadOnce(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	var tags []string
	for i := range 50 {
		statetest.AddMachine(t, site.Default, state.MachineSpec{})
		tags = append(tags, fmt.Sprintf("machine-%d", i))
	}
	resources := common.NewResources()
	defer resources.StopAll()
	api, err := provisioner.NewProvisionerAPI(site.Default, resources, manager)
	if err != nil {
		t.Fatal(err)
	}
	args := entities(tags...)
	calls := map[string]func() error{
		"Life":             func() error { _, err := api.Life(t.Context(), args); return err },
		"Status":           func() error { _, err := api.Status(t.Context(), args); return err },
		"InstanceId":       func() error { _, err := api.InstanceId(t.Context(), args); return err },
		"Constraints":      func() error { _, err := api.Constraints(args); return err },
		"ProvisioningInfo": func() error { _, err := api.ProvisioningInfo(args); return err },
	}
	for name, call := range calls {
		tap.Reset()
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		total := 0
		for method, n := range tap.Counts() {
			if method != "Next" {
				total += n
			}
		}
		if total > 4 {
			t.Errorf("%s of 50 machines makes %d calls of the store, want at most 4", name, total)
		}
	}
}

// TestRetryWatcherFiresOncePerDelay uses a request watcher that never asks.
//
// Cases: provisioner/WatchMachineErrorRetry
func TestRetryWatcherFiresOncePerDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := provisioner.NewRetryWatcher(time.Minute, newRequests())
		<-w.Changes()
		if d := time.Since(start); d != 0 {
			t.Errorf("first event after %v, want it at once", d)
		}
		<-w.Changes()
		if d := time.Since(start); d != time.Minute {
			t.Errorf("second event after %v, want %v", d, time.Minute)
		}
		time.Sleep(10*time.Minute + 30*time.Second) // unread events are one; the next is not due just now
		<-w.Changes()
		select {
		case <-w.Changes():
			t.Error("unread events were not merged")
		case <-time.After(time.Second):
		}
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
		if _, ok := <-w.Changes(); ok {
			t.Error("an event after the end")
		}
	})
}

func TestRetryWatcherFiresWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := newRequests()
		w := provisioner.NewRetryWatcher(time.Hour, requests)
		<-w.Changes()
		start := time.Now()
		requests.changes <- struct{}{}
		<-w.Changes()
		if d := time.Since(start); d != 0 {
			t.Errorf("event %v after the request, want it at once", d)
		}
		requests.err = errors.New("state has been closed")
		close(requests.changes)
		if err := w.Wait(); err == nil || err.Error() != "state has been closed" {
			t.Errorf("Wait() = %v, want what ended the requests", err)
		}
	})
}

func TestAskingForAnotherTryIsHeardAtOnce(t *testing.T) {
	f := newFixture(t)
	f.setStatus("0", status.Error, "no room", nil)
	got, err := f.WatchMachineErrorRetry()
	f.must(err)
	w := f.resources.Get(got.NotifyWatcherID).(watcher.NotifyWatcher)
	f.must(f.machine("0").MergeStatusData(context.Background(), map[string]any{"transient": true}))
	select {
	case <-w.Changes():
	case <-time.After(time.Minute):
		t.Error("no event after a try was asked for")
	}
	if _, err := f.as(caller{tag: "machine-1"}).WatchMachineErrorRetry(); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("WatchMachineErrorRetry of an agent = %v, want it denied", err)
	}
}

// requests is a watcher whose events a test sends.
type requests struct {
	changes chan struct{}
	err     error
}

func newRequests() *requests { return &requests{changes: make(chan struct{}, 1)} }

func (r *requests) Changes() <-chan struct{} { return r.changes }
func (r *requests) Kill()                    {}
func (r *requests) Wait() error              { return r.err }
