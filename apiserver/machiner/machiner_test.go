package machiner_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/machiner"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

var ctx = context.Background()

// open returns the facade of machine 1, beside which there is machine 0.
func open(t *testing.T) (*machiner.Machiner, common.Connection, *state.Machine) {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	conn := facadetest.Connect(t, facadetest.Agent("machine-1"))
	api, err := machiner.New(site.Default, conn)
	if err != nil {
		t.Fatal(err)
	}
	return api, conn, m
}

func TestOnlyAgentsGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	if _, err := machiner.New(site.Default, facadetest.Connect(t, facadetest.Superuser)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a person = %v, want it denied", err)
	}
}

func TestAgentTellsOfItsMachine(t *testing.T) {
	api, conn, m := open(t)
	watch, err := api.Watch(ctx, facadetest.Entities("machine-1", "machine-0", "machine-42", "rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range watch.Results {
		out = append(out, r.NotifyWatcherID+facadetest.Text(r.Error))
	}
	facadetest.Equal(t, "Watch", out, "1", facadetest.Denied, facadetest.Denied, facadetest.Denied)

	set, err := api.SetMachineAddresses(ctx, params.SetMachinesAddresses{MachineAddresses: []params.MachineAddresses{
		{Tag: "machine-1", Addresses: []network.Address{{Value: "10.0.0.7"}, {Value: "203.0.113.7", Type: "ipv4", Scope: "public"}}},
		{Tag: "machine-0"}, {Tag: "machine-42"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetMachineAddresses", facadetest.Texts(set.Results), "", facadetest.Denied, facadetest.Denied)
	select {
	case <-conn.Resources.Get("1").(watcher.NotifyWatcher).Changes():
	case <-time.After(time.Minute):
		t.Error("no event for new addresses")
	}
	if err := m.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for _, a := range m.MachineAddresses() {
		if a.Value == "10.0.0.7" && (a.Type != network.IPv4 || a.Scope != network.ScopeCloudLocal) {
			t.Errorf("address %+v: want what its text says", a)
		}
	}

	jobs, err := api.Jobs(ctx, facadetest.Entities("machine-1", "machine-0", "unit-foo-0"))
	if err != nil {
		t.Fatal(err)
	}
	if r := jobs.Results[0]; len(r.Jobs) != 1 || r.Jobs[0] != "JobHostUnits" {
		t.Errorf("Jobs = %+v", r)
	}
	facadetest.Equal(t, "Jobs", []string{facadetest.Text(jobs.Results[1].Error), facadetest.Text(jobs.Results[2].Error)},
		facadetest.Denied, `"unit-foo-0" is not a valid machine tag`)

	done, err := api.SetStatus(ctx, params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: "machine-1", Status: "started"}, {Tag: "machine-0", Status: "started"}}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetStatus", facadetest.Texts(done.Results), "", facadetest.Denied)
	dead, err := api.EnsureDead(ctx, facadetest.Entities("machine-1", "machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "EnsureDead", facadetest.Texts(dead.Results), "", facadetest.Denied)
	life, err := api.Life(ctx, facadetest.Entities("machine-1", "machine-0"))
	if err != nil || life.Results[0].Life != "dead" || facadetest.Text(life.Results[1].Error) != facadetest.Denied {
		t.Errorf("Life = %+v, %v", life, err)
	}
	if err := m.Refresh(ctx); err != nil || m.Status().Status != status.Started {
		t.Errorf("status = %+v, %v", m.Status(), err)
	}
}

func TestSetObservedNetworkConfig(t *testing.T) {
	api, _, m := open(t)
	err := api.SetObservedNetworkConfig(ctx, params.SetMachineNetworkConfig{Tag: "machine-1", Config: []params.NetworkConfig{
		{InterfaceName: "eth0", Address: "10.0.0.9"}, {InterfaceName: "eth1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Refresh(ctx); err != nil || len(m.MachineAddresses()) != 1 || m.MachineAddresses()[0].Value != "10.0.0.9" {
		t.Errorf("addresses = %v, %v", m.MachineAddresses(), err)
	}
	asked, err := api.SetProviderNetworkConfig(ctx, facadetest.Entities("machine-1", "machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetProviderNetworkConfig", facadetest.Texts(asked.Results), "", facadetest.Denied)
	for tag, want := range map[string]string{"machine-0": "permission denied", "rubbish": `"rubbish" is not a valid tag`} {
		if err := api.SetObservedNetworkConfig(ctx, params.SetMachineNetworkConfig{Tag: tag}); err == nil || err.Error() != want {
			t.Errorf("SetObservedNetworkConfig(%s) = %v, want %s", tag, err, want)
		}
	}
}
