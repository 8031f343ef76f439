package host_test

import (
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
)

// ready returns what a manager says of a host that was inspected.
func ready(mem int) host.Update {
	var u host.Update
	u.Status.Provisioning.State = metal3v1alpha1.StateReady
	u.Status.HardwareDetails = &metal3v1alpha1.HardwareDetails{RAMMebibytes: mem, CPU: metal3v1alpha1.CPU{Arch: "x86_64", Count: 8}}
	return u
}

// allocate gives one machine of a model a host.
func allocate(hosts *host.Hosts, st *state.State, m *state.Machine, q host.Request) (given host.Host, existed bool, err error) {
	g := hosts.Allocate(ctx, st, []host.Want{{MachineID: m.Id(), Request: q}})[0]
	return g.Host, g.Existed, g.Err
}

func TestAllocate(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m, model := host.New(site.SiteDocs()), manager(t, site, "m"), site.Default.ModelUUID()
	machine := func() *state.Machine { return statetest.AddMachine(t, site.Default, state.MachineSpec{}) }
	give := func(to *state.Machine, want string) (string, string) {
		t.Helper()
		c, err := constraints.Parse(want)
		must(t, err)
		h, _, err := allocate(hosts, site.Default, to, host.Request{Constraints: c})
		if err != nil {
			if !errors.Is(err, host.ErrNoMatch) {
				t.Errorf("%s: %v, want ErrNoMatch", want, err)
			}
			return "", err.Error()
		}
		return h.Name, ""
	}
	if _, why := give(machine(), ""); why != `cannot give machine 0 a host: no host matches: there are no hosts, add some with "slipway add-host"` {
		t.Error(why)
	}
	other := spec("reserved", "")
	other.ReserveFor = site.ControllerModelUUID()
	for _, s := range []host.Spec{spec("big", ""), spec("small", ""), spec("new", ""), other} {
		_, err := hosts.Add(ctx, s)
		must(t, err)
	}
	for name, mem := range map[string]int{"big": 8192, "small": 2048, "reserved": 4096} {
		must(t, m.Save(ctx, name, ready(mem)))
	}
	first := machine()
	for range 2 { // the same machine keeps its host
		if got, why := give(first, "arch=amd64 cores=8"); got != "small" {
			t.Errorf("host = %q, %s, want the smallest", got, why)
		}
	}
	must(t, first.Refresh(ctx))
	got, err := hosts.Get(ctx, "small")
	must(t, err)
	if first.Host() != "small" || got.Consumer == nil || *got.Consumer != (host.Consumer{ModelUUID: model, MachineID: first.Id()}) {
		t.Errorf("machine's host %q, host's consumer %+v", first.Host(), got.Consumer)
	}
	if err := hosts.Remove(ctx, "small", false); err == nil {
		t.Error("a host in use can be removed")
	}
	const want = "cannot give machine 2 a host: no host matches: of 4 hosts, 1 in use, 1 not ready, 1 reserved for other models, 1 with less than mem=16384M"
	if _, why := give(machine(), "mem=16G"); why != want {
		t.Errorf("reason = %s, want %s", why, want)
	}
	if _, why := give(machine(), "tags=gpu"); why == "" {
		t.Error("a host without the tag was given")
	}
}

func TestNoHostIsGivenTwice(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	var machines []*state.Machine
	for _, name := range []string{"a", "b", "c", "d"} {
		_, err := hosts.Add(ctx, spec(name, ""))
		must(t, err)
		must(t, m.Save(ctx, name, ready(1024)))
		machines = append(machines, statetest.AddMachine(t, site.Default, state.MachineSpec{}))
	}
	var mu sync.Mutex
	got := map[string]bool{}
	var wg sync.WaitGroup
	for _, machine := range machines {
		wg.Go(func() {
			h, _, err := allocate(hosts, site.Default, machine, host.Request{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got[h.Name] {
				t.Errorf("machine %s got %q, %v", machine.Id(), h.Name, err)
			}
			got[h.Name] = true
		})
	}
	wg.Wait()
}
