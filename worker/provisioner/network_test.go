package provisioner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// allocator gives containers the addresses 10.0.0.1 and so on.
type allocator struct {
	mu       sync.Mutex
	given    map[string]string // by container
	released []string
	err      error                 // of whole calls
	refuse   func(id string) error // nil means that all goes well
}

func (a *allocator) PrepareContainerInterfaceInfo(_ context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	return a.answer(ids, true)
}

func (a *allocator) GetContainerInterfaceInfo(_ context.Context, ids ...string) ([]api.Result[[]params.NetworkConfig], error) {
	return a.answer(ids, false)
}

func (a *allocator) answer(ids []string, give bool) ([]api.Result[[]params.NetworkConfig], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	out := make([]api.Result[[]params.NetworkConfig], len(ids))
	for i, id := range ids {
		if a.given == nil {
			a.given = map[string]string{}
		}
		if give && a.given[id] == "" {
			if out[i].Err = hook(a.refuse, id); out[i].Err != nil {
				continue
			}
			a.given[id] = fmt.Sprintf("10.0.0.%d", len(a.given)+1)
		}
		if a.given[id] == "" {
			out[i].Err = errors.New("it has 0 allocated addresses, not one")
			continue
		}
		out[i].Value = []params.NetworkConfig{{
			InterfaceName: "ens3", DeviceIndex: 2, InterfaceType: "ethernet", MACAddress: "00:16:3e:00:00:01", CIDR: "10.0.0.0/24",
			Address: a.given[id], GatewayAddress: "10.0.0.254", MTU: 1500, VLANTag: 7, DNSServers: []string{"10.0.0.53"}, ConfigType: "static",
		}}
	}
	return out, nil
}

func (a *allocator) ReleaseContainerAddresses(_ context.Context, ids ...string) ([]error, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	a.released = append(a.released, ids...)
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = hook(a.refuse, id)
		delete(a.given, id)
	}
	return errs, nil
}

// netBroker is a fakeBroker that notes the networks of what it starts.
type netBroker struct {
	*fakeBroker
	mu       sync.Mutex
	networks map[string][]network.Interface
}

func (b *netBroker) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	b.mu.Lock()
	b.networks[p.Owner.MachineID] = p.Network
	b.mu.Unlock()
	r, err := b.fakeBroker.StartInstance(ctx, p)
	for _, i := range p.Network {
		r.Instance.Addresses = append(r.Instance.Addresses, network.NewAddress(i.Address))
	}
	return r, err
}

// runAllocating starts the task of a host whose containers are given addresses.
func runAllocating(t *testing.T, f *fakeAPI, b Broker, a Allocator) *task {
	t.Helper()
	c := modelConfig(t, nil)
	w := newTask(taskConfig{
		api: f, broker: b, settings: settingsOf(c), network: a, owner: owner(""),
		model: func() *config.Config { return c }, watch: f.WatchModelMachines,
	})
	t.Cleanup(func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("the task ended with %v, want nil", err)
		}
		f.configFeed.Kill()
		f.retryFeed.Kill()
	})
	return w
}

func newNetBroker() *netBroker {
	return &netBroker{fakeBroker: newFakeBroker(), networks: map[string][]network.Interface{}}
}

func TestContainersAreGivenAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b, a := newFakeAPI("0/lxd/0", "0/lxd/1"), newNetBroker(), &allocator{}
		runAllocating(t, f, b, a)
		wait(time.Second)
		for id, address := range map[string]string{"0/lxd/0": a.given["0/lxd/0"], "0/lxd/1": a.given["0/lxd/1"]} {
			want := network.Interface{
				Name: "ens3", Index: 2, Type: "ethernet", MAC: "00:16:3e:00:00:01", CIDR: "10.0.0.0/24", Address: address,
				Gateway: "10.0.0.254", MTU: 1500, VLANTag: 7, DNSServers: []string{"10.0.0.53"},
			}
			if got := b.networks[id]; address == "" || fmt.Sprint(got) != fmt.Sprint([]network.Interface{want}) {
				t.Errorf("%s was started with %+v, want %+v", id, got, want)
			}
			m, _ := f.get(id)
			if len(m.network) != 1 || m.network[0].Address != address || m.network[0].CIDR != "10.0.0.0/24" || m.network[0].MACAddress == "" {
				t.Errorf("network of %s is recorded as %+v, want its interface once", id, m.network)
			}
		}
		f.change("0/lxd/0", dies)
		wait(time.Second)
		wantGone(t, f, "0/lxd/0")
		if !slices.Equal(a.released, []string{"0/lxd/0"}) {
			t.Errorf("addresses released of %q, want of the container that was removed", a.released)
		}
	})
}

// While the site gives no addresses, all is as if nobody had asked.
func TestContainersOfASiteThatGivesNoAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b, a := newFakeAPI("0/lxd/0"), newNetBroker(), &allocator{err: errors.NotSupportedf("container address allocation")}
		runAllocating(t, f, b, a)
		wait(time.Second)
		m, _ := f.get("0/lxd/0")
		if m.instance == "" || b.networks["0/lxd/0"] != nil || m.network != nil {
			t.Errorf("instance %q, started with %v, network %v, want an instance with neither", m.instance, b.networks, m.network)
		}
		for _, s := range m.history {
			if strings.Contains(s.Message, "supported") {
				t.Errorf("status says %q", s.Message)
			}
		}
		f.change("0/lxd/0", dies)
		wait(time.Second)
		wantGone(t, f, "0/lxd/0")
	})
}

// An address that cannot be had is asked for until it can.
func TestContainerWaitsForItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0/lxd/0", "0/lxd/1"), newNetBroker()
		a := &allocator{refuse: func(id string) error {
			if id == "0/lxd/0" {
				return errors.New("allocatable IP addresses exhausted for subnet \"10.0.0.0/24\"")
			}
			return nil
		}}
		runAllocating(t, f, b, a)
		wait(time.Hour)
		if m, _ := f.get("0/lxd/1"); m.instance == "" {
			t.Errorf("the other container waits too: %+v", m.instStat)
		}
		m, _ := f.get("0/lxd/0")
		if m.instance != "" || m.status.Status != status.Pending || !strings.Contains(m.instStat.Message, "exhausted") || m.instStat.Data[status.DataNextTry] == nil {
			t.Errorf("instance %q, status %+v, of the instance %+v, want the reason and the next try", m.instance, m.status, m.instStat)
		}
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		wait(time.Hour)
		if m, _ = f.get("0/lxd/0"); m.instance == "" || m.network[0].Address == "" {
			t.Errorf("no instance once there is an address: %+v", m.instStat)
		}
	})
}

// A call that fails as a whole fails nothing but the starts, and a release that
// fails holds no removal up.
func TestAllocatorThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b, a := newFakeAPI("0/lxd/0"), newNetBroker(), &allocator{err: errors.New("no subnets available")}
		runAllocating(t, f, b, a)
		wait(time.Second)
		m, _ := f.get("0/lxd/0")
		if m.instance != "" || !strings.Contains(m.instStat.Message, "no subnets available") {
			t.Errorf("instance %q, status %+v", m.instance, m.instStat)
		}
		f.change("0/lxd/0", dies)
		wait(time.Minute)
		wantGone(t, f, "0/lxd/0")
	})
}

// A worker that is started anew between the allocation and the start, or between
// the start and its record, goes on with the same address.
func TestAddressOutlivesTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b, a := newFakeAPI("0/lxd/0"), newNetBroker(), &allocator{}
		if _, err := a.answer([]string{"0/lxd/1", "0/lxd/0"}, true); err != nil {
			t.Fatal(err)
		}
		b.have("i-early", owner("0/lxd/1"), status.Running) // not recorded
		f.change("0/lxd/1", func(*fakeMachine) {})
		runAllocating(t, f, b, a)
		wait(time.Minute)
		if got := b.networks["0/lxd/0"]; len(got) != 1 || got[0].Address != "10.0.0.2" {
			t.Errorf("container started with %+v, want the address of the first time", got)
		}
		wantInstance(t, f, "0/lxd/1", "i-early")
		if m, _ := f.get("0/lxd/1"); len(m.network) != 1 || m.network[0].Address != "10.0.0.1" {
			t.Errorf("network of what was started earlier is %+v, want what it was given", m.network)
		}
	})
}
