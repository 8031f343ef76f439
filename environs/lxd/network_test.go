package lxd_test

import (
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/internal/golden"
)

const networkFile = "/etc/systemd/network/05-slipway-eth0.network"

// bridged is a profile with a bridge of the host's, and one more network.
var bridged = map[string]map[string]string{
	"root": {"type": "disk", "path": "/", "pool": "default"},
	"lan":  {"type": "nic", "nictype": "bridged", "parent": "br0", "name": "eth0"},
	"more": {"type": "nic", "network": "lxdbr0"},
}

func (f *fixture) given(machine string) environs.StartInstanceParams {
	f.Helper()
	p := f.params(machine, "")
	p.Network = []network.Interface{{
		Name: "enp3s0", MAC: "00:16:3e:0a:0b:0c", CIDR: "10.5.0.0/16", Address: "10.5.200.7", Gateway: "10.5.0.2",
		MTU: 9000, VLANTag: 7, DNSServers: []string{"10.5.0.53"},
	}}
	return p
}

func TestNetworkOfAContainerIsAsApproved(t *testing.T) {
	for name, attrs := range map[string]map[string]any{
		"network-static.golden":    nil,
		"network-agent.golden":     late,
		"network-cloudinit.golden": {lxd.CloudInitKey: true, lxd.HasAgentKey: true},
	} {
		f := newFixture(t, attrs, "a")
		f.servers["a"].Profile(bridged)
		i := f.start(f.given("0/lxd/0"))
		if len(i.Addresses) != 1 || i.Addresses[0] != network.NewAddress("10.5.200.7") {
			t.Errorf("%s: addresses %v, want the one that was given", name, i.Addresses)
		}
		c := f.container("a")
		golden.Check(t, name, describe(c)+c.Files[networkFile].Content)
	}
}

// What the host would give stays as it is where nothing else is given.
func TestContainerWithoutAnAddressHasTheProfilesNetwork(t *testing.T) {
	f := newFixture(t, nil, "a")
	f.servers["a"].Profile(bridged)
	f.start(f.params("0/lxd/0", ""))
	c := f.container("a")
	for name, device := range c.Devices {
		if device["type"] == "nic" {
			t.Errorf("the container has a network device %s of its own: %v", name, device)
		}
	}
	if _, there := c.Files[networkFile]; there || c.Config["cloud-init.network-config"] != "" {
		t.Errorf("the container has network configuration: %v", c.Config)
	}
}

// A disk is written to first if the boot reads its network there, and again by the
// start that goes on with one that was cut off.
func TestNetworkIsThereBeforeTheBoot(t *testing.T) {
	f := newFixture(t, late, "a")
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if strings.HasPrefix(call, "PUT ") || strings.HasPrefix(call, "DELETE ") {
			return &lxdtest.Failure{Code: 500, Text: "not now"}
		}
		return nil
	})
	if _, err := f.environ.StartInstance(t.Context(), f.given("0/lxd/0")); err == nil {
		t.Fatal("StartInstance succeeded")
	}
	f.servers["a"].Fail(nil)
	c := f.container("a")
	if c.Status != "Stopped" || c.Files[networkFile].Content == "" {
		t.Errorf("container is %s, network file %+v", c.Status, c.Files[networkFile])
	}
	delete(c.Files, networkFile)
	f.servers["a"].Put(c)
	f.start(f.given("0/lxd/0"))
	if c = f.container("a"); c.Status != "Running" || !strings.Contains(c.Files[networkFile].Content, "10.5.200.7") {
		t.Errorf("container is %s, network file %+v", c.Status, c.Files[networkFile])
	}
}

func TestNetworkThatCannotBeGiven(t *testing.T) {
	f := newFixture(t, nil, "a")
	f.servers["a"].Profile(map[string]map[string]string{"root": bridged["root"]})
	_, err := f.environ.StartInstance(t.Context(), f.given("0/lxd/0"))
	if environs.ClassOf(err) != environs.Permanent || !strings.Contains(err.Error(), "no network device") {
		t.Errorf("StartInstance without a network device = %v, want a permanent error that says so", err)
	}
	// Whoever adds one need not restart anything.
	f.servers["a"].Profile(bridged)
	p := f.given("0/lxd/0")
	p.Network[0].Address = "10.6.0.1"
	if _, err := f.environ.StartInstance(t.Context(), p); environs.ClassOf(err) != environs.Permanent || !strings.Contains(err.Error(), "10.6.0.1") {
		t.Errorf("StartInstance with an address of another subnet = %v", err)
	}
	if got := f.servers["a"].Containers(); len(got) != 0 {
		t.Errorf("%d containers are left", len(got))
	}
	f.start(f.given("0/lxd/0"))
}
