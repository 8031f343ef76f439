package below_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func TestStateAddresses(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	b := below.Site{State: site.Default}
	check := func(when, want string) {
		t.Helper()
		got, err := b.StateAddresses(ctx)
		if text := strings.Join(got, " "); err == nil && text != want || err != nil && err.Error() != want {
			t.Errorf("%s: StateAddresses = %q, %v, want %s", when, text, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("nothing known", "no controller machines with addresses found")
	must(site.SetAPIHostPorts(ctx, [][]network.HostPort{{
		{Address: network.NewAddress("203.0.113.1"), Port: 17070}, {Address: network.NewAddress("10.0.0.1"), Port: 17070},
	}}))
	check("only the API servers known", "10.0.0.1:37017")
	zero, err := site.Management.Machines().Get(ctx, "0")
	must(err)
	must(zero.SetProviderAddresses(ctx, network.NewAddresses("10.0.0.9")))
	must(site.UpdateControllerConfig(ctx, map[string]any{below.StatePortKey: 27017}, nil))
	ordinary := statetest.AddMachine(t, site.Management, state.MachineSpec{})
	must(ordinary.SetProviderAddresses(ctx, network.NewAddresses("10.0.0.10")))
	_, err = site.Workers().Add(ctx, state.WorkerSpec{Name: "east", Nonce: "n", Password: strings.Repeat("p", 24)})
	must(err)
	other := statetest.AddMachine(t, site.Management, state.MachineSpec{Jobs: []job.Job{job.ManageModel}})
	must(other.SetProviderAddresses(ctx, network.NewAddresses("fd00::1")))
	check("machines known", "10.0.0.9:27017 [fd00::1]:27017")
}

func TestCACert(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	b := below.Site{State: site.Default}
	if _, err := b.CACert(ctx); !errors.Is(err, errors.NotFound) {
		t.Errorf("CACert before there is one = %v, want not found", err)
	}
	if err := site.UpdateControllerConfig(ctx, map[string]any{below.CACertKey: "a certificate"}, nil); err != nil {
		t.Fatal(err)
	}
	if cert, err := b.CACert(ctx); err != nil || cert != "a certificate" {
		t.Errorf("CACert = %q, %v", cert, err)
	}
}

func TestConfig(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	c := below.Config{State: site.Default}
	if v, err := c.AgentVersion(ctx); err != nil || v != "" {
		t.Errorf("AgentVersion = %q, %v, want none", v, err)
	}
	if err := site.Default.ModelConfig().SetAgentVersion(ctx, "2.1.0"); err != nil {
		t.Fatal(err)
	}
	if v, err := c.AgentVersion(ctx); err != nil || v != "2.1.0" {
		t.Errorf("AgentVersion = %q, %v, want 2.1.0", v, err)
	}
	attrs, err := c.ModelConfig(ctx)
	if err != nil || attrs["name"] != "default" || attrs["ssl-hostname-verification"] != true {
		t.Errorf("ModelConfig = %v, %v, want what is set and the defaults", attrs, err)
	}
	w, err := c.WatchModelConfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-w.Changes()
	w.Kill()
}
