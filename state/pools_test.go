package state_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

var fast = storage.Pool{Name: "fast", Provider: "static", Attrs: map[string]any{"foo": "bar"}}

func inPool(name string) state.MachineSpec {
	return state.MachineSpec{Disks: []state.Disks{{Pool: name, Size: 1024, Count: 2}}}
}

func TestPools(t *testing.T) {
	site := statetest.Open(t)
	pools := site.Default.Pools()
	for _, p := range []storage.Pool{{Name: "slow", Provider: "nfs"}, fast} {
		if err := pools.Add(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := pools.Add(ctx, fast); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("Add of a pool that is there = %v", err)
	}
	if err := pools.Add(ctx, storage.Pool{Name: "x"}); !errors.Is(err, errors.NotValid) {
		t.Errorf("Add of a pool without a type = %v", err)
	}
	all, err := pools.All(ctx)
	if want := "[{fast static map[foo:bar]} {slow nfs map[]}]"; err != nil || fmt.Sprint(all) != want {
		t.Errorf("All() = %v, %v, want %v", all, err, want)
	}
	m := statetest.AddMachine(t, site.Default, inPool("fast"))
	if err := pools.Remove(ctx, "fast"); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "in use by machine 0") {
		t.Errorf("Remove of a pool with volumes = %v", err)
	}
	if err := errors.Trace(m.EnsureDead(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fast", "slow"} {
		if err := pools.Remove(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if err := pools.Remove(ctx, "fast"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Remove of a pool that is gone = %v", err)
	}
	if all, err := pools.All(ctx); err != nil || len(all) != 0 {
		t.Errorf("All() = %v, %v, want none", all, err)
	}
}

// Volumes whose pool nobody names are in the one that the model's configuration has at that
// time, and it stays while they do.
func TestVolumesWithoutAPoolAreInTheModelsDefault(t *testing.T) {
	site := statetest.Open(t)
	if err := site.Default.Pools().Add(ctx, fast); err != nil {
		t.Fatal(err)
	}
	set := func(u config.Update) error { return site.Default.ModelConfig().Update(ctx, u) }
	for _, c := range []struct{ source, asked, want string }{
		{"", "", ""}, {"", "slow", "slow"}, {"static", "", "static"}, {"fast", "", "fast"}, {"fast", "slow", "slow"}, {"", "", ""},
	} {
		if err := set(config.Update{Set: map[string]any{config.StorageBlockSource: c.source}}); err != nil {
			t.Fatal(err)
		}
		m := statetest.AddMachine(t, site.Default, inPool(c.asked))
		if v := m.Volumes(); v[0].Pool != c.want || v[1].Pool != c.want {
			t.Errorf("with the default %q, volumes of %q are in %q and %q", c.source, c.asked, v[0].Pool, v[1].Pool)
		}
	}
	if err := site.Default.Pools().Remove(ctx, "fast"); !errors.Is(err, errors.NotValid) {
		t.Errorf("Remove of a pool with volumes that were put there = %v, want NotValid", err)
	}
	if err := set(config.Update{Set: map[string]any{config.StorageBlockSource: "a b"}}); !errors.Is(err, errors.NotValid) {
		t.Errorf("a default that is no name: %v, want NotValid", err)
	}
}

// TestNoPoolGoesFromUnderAVolume has a machine added between the look at who uses
// a pool and its removal.
func TestNoPoolGoesFromUnderAVolume(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	site := statetest.OpenWith(t, statetest.Config{Store: tap})
	pools := site.Default.Pools()
	if err := pools.Add(ctx, fast); err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool // the hub calls the store too
	armed.Store(true)
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if c.Method == "Apply" && armed.CompareAndSwap(true, false) {
			statetest.AddMachine(t, site.Default, inPool("fast"))
		}
		return nil
	})
	err := pools.Remove(ctx, "fast")
	tap.SetBefore(nil)
	if armed.Load() || !errors.Is(err, errors.NotValid) {
		t.Errorf("Remove = %v, want it to see the machine that came meanwhile", err)
	}
	if all, err := pools.All(ctx); err != nil || len(all) != 1 {
		t.Errorf("All() = %v, %v, want the pool", all, err)
	}
}

func TestNetworksAreBounded(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	nets := site.Default.Networks()
	for i := range 500 {
		if err := nets.AddSpace(ctx, network.Space{Name: fmt.Sprintf("s%d", i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 257)
	for name, err := range map[string]error{
		"more than 500 spaces": nets.AddSpace(ctx, network.Space{Name: "s500"}, nil),
		"of 257 bytes":         nets.AddSpace(ctx, network.Space{Name: "t", ProviderID: long}, nil),
		"of 257 bytes ":        nets.AddSubnet(ctx, network.Subnet{CIDR: "10.0.0.0/24", Space: "s0", Zones: []string{long}}),
		"101 zones":            nets.AddSubnet(ctx, network.Subnet{CIDR: "10.0.0.0/24", Space: "s0", Zones: make([]string, 101)}),
	} {
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%v, want NotValid with %q", err, name)
		}
	}
}
