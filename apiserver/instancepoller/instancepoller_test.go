package instancepoller_test

import (
	"fmt"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/instancepoller"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestOnlyManagersGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Superuser, facadetest.Agent("machine-0")} {
		if _, err := instancepoller.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
}

func TestWhatAManagerTellsAndHears(t *testing.T) {
	ctx := t.Context()
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	statetest.AddMachine(t, st, state.MachineSpec{})
	statetest.AddMachine(t, st, state.MachineSpec{InstanceID: "i-1", Nonce: "manual:x"})
	statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	p, err := instancepoller.New(st, facadetest.Connect(t, facadetest.Manager))
	if err != nil {
		t.Fatal(err)
	}
	about := facadetest.Entities("machine-0", "machine-1", "machine-0-lxd-0", "machine-42", "unit-foo-0", "rubbish")
	const missing = "machine 42 not found [not found]"

	var statuses params.SetStatus
	var addresses params.SetMachinesAddresses
	for _, e := range about.Entities {
		statuses.Entities = append(statuses.Entities, params.EntityStatusArgs{Tag: e.Tag, Status: "stopped by hand", Info: "why"})
		addresses.MachineAddresses = append(addresses.MachineAddresses, params.MachineAddresses{Tag: e.Tag, Addresses: []network.Address{{Value: "10.0.0.7"}}})
	}
	set, err := p.SetInstanceStatus(ctx, statuses)
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetInstanceStatus", facadetest.Texts(set.Results), "", "", "", missing, facadetest.Denied, facadetest.Denied)
	if set, err = p.SetProviderAddresses(ctx, addresses); err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetProviderAddresses", facadetest.Texts(set.Results), "", "", "", missing, facadetest.Denied, facadetest.Denied)

	var got []string
	note := func(value any, e *params.Error) {
		if e != nil {
			value = facadetest.Text(e)
		}
		got = append(got, fmt.Sprint(value))
	}
	known, err := p.InstanceStatus(ctx, about)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range known.Results {
		note(r.Status+": "+r.Info, r.Error)
	}
	facadetest.Equal(t, "InstanceStatus", got, "stopped by hand: why", "stopped by hand: why", "stopped by hand: why", missing, facadetest.Denied, facadetest.Denied)
	got = nil
	where, err := p.ProviderAddresses(ctx, about)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range where.Results {
		note(len(r.Addresses) == 1 && r.Addresses[0] == network.NewAddress("10.0.0.7"), r.Error)
	}
	facadetest.Equal(t, "ProviderAddresses", got, "true", "true", "true", missing, facadetest.Denied, facadetest.Denied)
	got = nil
	hand, err := p.AreManuallyProvisioned(ctx, about)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range hand.Results {
		note(r.Result, r.Error)
	}
	facadetest.Equal(t, "AreManuallyProvisioned", got, "false", "true", "false", missing, facadetest.Denied, facadetest.Denied)
	got = nil
	ids, err := p.InstanceId(ctx, about)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ids.Results {
		note(r.Result, r.Error)
	}
	facadetest.Equal(t, "InstanceId", got, "machine 0 not provisioned [not provisioned]", "i-1", "machine 0/lxd/0 not provisioned [not provisioned]", missing, facadetest.Denied, facadetest.Denied)
}
