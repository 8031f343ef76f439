package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/kind"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
)

// rack adds hosts, each ready, in the zones that are named before a slash.
func rack(t *testing.T, site *statetest.Site, m *host.Hosts, names ...string) {
	t.Helper()
	hosts := host.New(site.SiteDocs())
	for _, name := range names {
		zone, name, _ := strings.Cut(name, "/")
		s := spec(name, "")
		s.Labels = map[string]string{"ssd": ""}
		if zone != "" {
			s.Labels[host.ZoneLabel] = zone
		}
		_, err := hosts.Add(ctx, s)
		must(t, err)
		must(t, m.Save(ctx, name, ready(1024)))
	}
}

func TestAHostFromAllocationToRelease(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m, model := host.New(site.SiteDocs()), manager(t, site, "m"), site.Default.ModelUUID()
	rack(t, site, m, "/a")
	machine := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	q := host.Request{Nonce: "n", Image: &metal3v1alpha1.Image{URL: "http://x/y"}, Data: host.Data{UserData: "hush-user", NetworkData: "hush-net"}}
	for i := range 2 {
		given, existed, err := allocate(hosts, site.Default, machine, q)
		if err != nil || given.Name != "a" || existed != (i > 0) || given.Record.Spec.Image == nil || !given.Record.Spec.Online {
			t.Fatalf("Allocate = %+v, %v, %v", given, existed, err)
		}
	}
	other := q
	other.Nonce = "another"
	if _, _, err := allocate(hosts, site.Default, machine, other); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("Allocate with another nonce = %v, want AlreadyExists", err)
	}
	if d, err := m.Data(ctx, "a"); err != nil || d != q.Data {
		t.Errorf("Data is not what was given: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", q.Data, q, q.Data, q.Data); strings.Contains(text, "hush") {
		t.Errorf("data prints as %s", text)
	}
	if _, err := hosts.Data(ctx, "a"); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Data without the lease = %v", err)
	}
	if got, err := hosts.Consumed(ctx, model, nil); err != nil || len(got) != 1 || got[0].Consumer.Nonce != "n" {
		t.Errorf("Consumed = %+v, %v", got, err)
	}
	if got, err := hosts.Consumed(ctx, site.ControllerModelUUID(), []string{"a", "gone"}); err != nil || len(got) != 0 {
		t.Errorf("another model's Consumed = %+v, %v", got, err)
	}
	if err := hosts.Release(ctx, site.Management, "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("another model's Release = %v, want NotFound", err)
	}
	for range 2 {
		must(t, hosts.Release(ctx, site.Default, "a"))
	}
	must(t, hosts.Release(ctx, site.Default, "gone"))
	must(t, machine.Refresh(ctx))
	got, err := hosts.Get(ctx, "a")
	must(t, err)
	if machine.Host() != "" || got.Consumer != nil || got.Record.Spec.Image != nil {
		t.Errorf("after its release: machine's host %q, host %+v", machine.Host(), got)
	}
	if d, err := m.Data(ctx, "a"); err != nil || d != (host.Data{}) {
		t.Errorf("data of a free host is left, %v", err)
	}
}

func TestReleaseOfAMachineThatIsGone(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	rack(t, site, m, "/a")
	machine := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	_, _, err := allocate(hosts, site.Default, machine, host.Request{})
	must(t, err)
	must(t, machine.EnsureDead(ctx))
	must(t, machine.Remove(ctx))
	must(t, hosts.Release(ctx, site.Default, "a"))
	if got, err := hosts.Get(ctx, "a"); err != nil || got.Consumer != nil {
		t.Errorf("host %+v, %v, want it free", got, err)
	}
}

// A host that is removed by force under its machine takes what it had with it, and
// the machine may get another.
func TestAHostThatVanishes(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	rack(t, site, m, "/a")
	machine := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	q := host.Request{Nonce: "n", Data: host.Data{UserData: "u"}}
	_, _, err := allocate(hosts, site.Default, machine, q)
	must(t, err)
	must(t, hosts.Remove(ctx, "a", true))
	must(t, m.Forget(ctx, "a"))
	if _, err := m.Data(ctx, "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Data of a host that is gone = %v", err)
	}
	rack(t, site, m, "/b")
	if given, existed, err := allocate(hosts, site.Default, machine, q); err != nil || given.Name != "b" || existed {
		t.Errorf("Allocate = %q, %v, %v, want another host", given.Name, existed, err)
	}
}

func TestWriteOnlyWithTheModelsLease(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := manager(t, site, "m")
	rack(t, site, m, "/a", "/b")
	fence := state.NewFence("0")
	st := site.Default.WithFence(fence)
	hosts := host.New(st.SiteDocs())
	machine := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	behind, err := st.Machines().Get(ctx, machine.Id())
	must(t, err)
	give := func() error {
		_, _, err := allocate(hosts, st, behind, host.Request{})
		return err
	}
	if err := give(); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Allocate without the model's lease = %v", err)
	}
	_, err = st.Lease().Claim(ctx, "w", time.Minute)
	must(t, err)
	must(t, give())
	must(t, machine.Refresh(ctx))
	if err := hosts.Release(ctx, site.Default.WithFence(state.NewFence("0")), machine.Host()); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Release without the model's lease = %v", err)
	}
	must(t, hosts.Release(ctx, st, machine.Host()))
}

func TestWhatStandsAgainstHosts(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	rack(t, site, m, "z1/a")
	hinted := spec("hinted", "")
	hinted.Spec.RootDeviceHints = &metal3v1alpha1.RootDeviceHints{SerialNumber: "S1"}
	_, err := hosts.Add(ctx, hinted)
	must(t, err)
	u := ready(1024)
	u.Status.HardwareDetails.Storage = []metal3v1alpha1.Storage{{Name: "/dev/sda", SizeBytes: 50 << 30, SerialNumber: "S0"}, {Name: "/dev/sdb", SizeBytes: 500 << 30, SerialNumber: "S1"}}
	must(t, m.Save(ctx, "hinted", u))
	missing := spec("missing", "")
	missing.Spec.RootDeviceHints = &metal3v1alpha1.RootDeviceHints{SerialNumber: "S2"}
	_, err = hosts.Add(ctx, missing)
	must(t, err)
	must(t, m.Save(ctx, "missing", u))
	for want, c := range map[string]struct {
		constraints string
		q           host.Request
	}{
		"of 3 hosts, 3 not in zone z2 or z3": {q: host.Request{Zones: []string{"z2", "z3"}}},
		"of 3 hosts, 3 not named d":          {q: host.Request{Name: "d"}},
		"of 3 hosts, 1 without a disk that its root-device hints fit, 2 not named missing":                            {q: host.Request{Name: "missing"}},
		"of 3 hosts, 1 without a disk of root-disk=614400M, 2 not named hinted":                                       {"root-disk=600G", host.Request{Name: "hinted"}},
		"of 3 hosts, 3 with less than mem=2048M":                                                                      {constraints: "mem=2G tags=^ssd"},
		"of 3 hosts, 3 not of arch=arm64":                                                                             {constraints: "arch=arm64"},
		"of 3 hosts, 1 without a disk of root-disk=2048M, 2 without tags=ssd":                                         {constraints: "tags=ssd root-disk=2G"},
		"1 without a disk of root-disk=614400M, 1 without a disk that its root-device hints fit, 1 without tags=^ssd": {constraints: "tags=^ssd root-disk=600G"},
	} {
		if c.constraints != "" {
			c.q.Constraints, err = constraints.Parse(c.constraints)
			must(t, err)
		}
		_, _, err := allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), c.q)
		if !errors.Is(err, host.ErrNoMatch) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Allocate(%s) = %v, want %s", c.constraints, err, want)
		}
	}
	c, err := constraints.Parse("root-disk=400G")
	must(t, err)
	if given, _, err := allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), host.Request{Constraints: c}); err != nil || given.Name != "hinted" {
		t.Errorf("a big disk = %q, %v", given.Name, err)
	}
}

func TestMachinesAreSpreadOverZones(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m, model := host.New(site.SiteDocs()), manager(t, site, "m"), site.Default.ModelUUID()
	rack(t, site, m, "z1/a", "z1/b", "z2/c", "z2/d", "z3/e")
	zones := func() (all, free []string) {
		got, err := hosts.Zones(ctx, model)
		must(t, err)
		for _, z := range got {
			all = append(all, z.Name)
			if z.Free {
				free = append(free, z.Name)
			}
		}
		return all, free
	}
	var got []string
	for range 3 {
		given, _, err := allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), host.Request{})
		must(t, err)
		got = append(got, given.Zone())
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"z1", "z2", "z3"}) {
		t.Errorf("three machines are in zones %q", got)
	}
	if all, free := zones(); len(all) != 3 || !slices.Equal(free, []string{"z1", "z2"}) {
		t.Errorf("zones %q, free %q", all, free)
	}
	apart := host.Request{Apart: []string{"a", "b"}}
	given, _, err := allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), apart)
	must(t, err)
	if given.Zone() != "z2" {
		t.Errorf("kept away from z1 in %q", given.Zone())
	}
}
