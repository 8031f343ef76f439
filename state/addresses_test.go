package state_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// few goes through eight MAC addresses from a random one on, so that they clash.
func few() state.Chance {
	n := rand.N(8)
	return state.Chance{
		MAC: func() string {
			n = (n + 1) % 8
			return fmt.Sprintf("00:16:3e:00:00:%02x", n)
		},
		Number: rand.Uint64N,
	}
}

var (
	subnet = network.Subnet{CIDR: "10.0.0.0/24", Space: "s", Low: "10.0.0.10", High: "10.0.0.15"}
	eth0   = network.Interface{Name: "eth0", CIDR: "10.0.0.0/24", Address: "10.0.0.2"}
)

// host adds a machine with containers.
func host(t *testing.T, st *state.State, containers int) []*state.Machine {
	t.Helper()
	h := statetest.AddMachine(t, st, state.MachineSpec{})
	out := make([]*state.Machine, containers)
	for i := range out {
		out[i] = statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: h.Id()})
	}
	return out
}

func TestNoAddressIsGivenTwice(t *testing.T) {
	site := statetest.Open(t)
	containers := host(t, site.Default, 8)
	var wg sync.WaitGroup
	given, failures := make([]state.Allocated, len(containers)), make([]error, len(containers))
	for i, c := range containers {
		wg.Go(func() { given[i], failures[i] = c.Allocate(ctx, subnet, eth0, few()) })
	}
	wg.Wait()
	addresses, macs, exhausted := map[string]bool{}, map[string]bool{}, 0
	for i := range given {
		switch err := failures[i]; {
		case errors.Is(err, state.ErrExhausted):
			exhausted++
		case err != nil:
			t.Errorf("Allocate = %v", err)
		case addresses[given[i].Address] || macs[given[i].MAC]:
			t.Errorf("%+v is given twice", given[i])
		default:
			addresses[given[i].Address], macs[given[i].MAC] = true, true
		}
	}
	if len(addresses) != 6 || exhausted != 2 {
		t.Errorf("%d addresses given and %d refused, want the range's 6 and the other 2", len(addresses), exhausted)
	}
	taken, err := site.Default.Networks().Addresses(ctx, subnet.CIDR)
	if err != nil || len(taken) != 6 {
		t.Errorf("taken = %v, %v, want 6", taken, err)
	}
}

func TestAllocateRefuses(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	c := host(t, site.Default, 2)
	for _, s := range []network.Subnet{
		{CIDR: "10.0.0.0/24"}, {CIDR: "10.0.0.0/24", Low: "10.0.0.9"}, {CIDR: "2001:db8::/64", Low: "2001:db8::1", High: "2001:db8::2"},
		{CIDR: "10.0.0.0/24", Low: "10.0.0.9", High: "10.0.0.8"},
	} {
		if _, err := c[0].Allocate(ctx, s, eth0, few()); !errors.Is(err, errors.NotSupported) {
			t.Errorf("Allocate from %+v = %v, want not supported", s, err)
		}
	}
	if err := c[1].EnsureDead(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c[1].Allocate(ctx, subnet, eth0, few()); !errors.Is(err, state.ErrNotAlive) {
		t.Errorf("Allocate for a dead container = %v, want ErrNotAlive", err)
	}
	if err := c[1].Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c[1].Allocate(ctx, subnet, eth0, few()); !errors.Is(err, state.ErrNotAlive) {
		t.Errorf("Allocate for a removed container = %v, want ErrNotAlive", err)
	}
	same := state.Chance{MAC: func() string { return "00:16:3e:00:00:01" }, Number: rand.Uint64N}
	if _, err := c[0].Allocate(ctx, subnet, eth0, same); err != nil {
		t.Fatal(err)
	}
	other := host(t, site.Default, 1)[0]
	if _, err := other.Allocate(ctx, subnet, eth0, same); err == nil || !strings.Contains(err.Error(), "no MAC address is free") {
		t.Errorf("Allocate with a MAC address that is taken = %v", err)
	}
}

func TestAddressesGoBack(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	c := host(t, st, 2)
	for _, m := range c {
		if _, err := m.Allocate(ctx, subnet, eth0, few()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c[0].Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if a := c[0].Addresses(); len(a) != 1 || a[0].SpaceName != "s" || a[0].Value != c[0].Allocated()[0].Address {
		t.Errorf("addresses = %+v, want the one that was given", a)
	}
	for range 2 { // twice is as good as once
		if err := c[0].ReleaseAddresses(ctx); err != nil {
			t.Fatal(err)
		}
	}
	lives := map[life.Value]int{}
	taken, err := st.Networks().Addresses(ctx, subnet.CIDR)
	for _, s := range taken {
		lives[s.Life]++
	}
	if err != nil || lives[life.Dead] != 1 || lives[life.Alive] != 1 {
		t.Errorf("taken = %v, %v, want one dead", taken, err)
	}
	if err := c[1].EnsureDead(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c[1].Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if next, err := site.Cleanups().Run(ctx, time.Now()); err != nil || !next.IsZero() {
		t.Fatalf("Run = %v, %v, want everything done", next, err)
	}
	if taken, err := st.Networks().Addresses(ctx, subnet.CIDR); err != nil || len(taken) != 0 {
		t.Errorf("taken = %v, %v, want none", taken, err)
	}
	for range 3 { // the MAC addresses are free too: all eight can be had
		for _, m := range host(t, st, 2) {
			if _, err := m.Allocate(ctx, subnet, eth0, few()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c[1].ReleaseAddresses(ctx); err != nil {
		t.Errorf("ReleaseAddresses of what is gone = %v, want a success", err)
	}
}

func TestNetworksAndImagesEndWithTheModel(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	if err := st.Networks().AddSpace(ctx, network.Space{Name: "s"}, nil); err != nil {
		t.Fatal(err)
	}
	m, err := st.Model(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Networks().AddSubnet(ctx, network.Subnet{CIDR: "10.0.0.0/24", Space: "s"}); !errors.Is(err, state.ErrModelNotAlive) {
		t.Errorf("AddSubnet to a dying model = %v, want ErrModelNotAlive", err)
	}
	if _, err := site.Cleanups().Run(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	spaces, _, err := st.Networks().All(ctx)
	if err != nil || len(spaces) != 0 {
		t.Errorf("spaces = %v, %v, want none after the model", spaces, err)
	}
	if err := st.Networks().AddSpace(ctx, network.Space{Name: "t"}, nil); !errors.Is(err, errors.NotFound) {
		t.Errorf("AddSpace to a model that is gone = %v, want not found", err)
	}
}
