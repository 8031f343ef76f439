package simulatedhost_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/provisioner"
	"github.com/slipway-project/slipway/worker/simulatedhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// site is a controller, a worker and a rack in one process.
type site struct {
	*statetest.Site
	t    *testing.T
	rack *simulated.Rack
	info api.Info // of machine 0 of the controller model
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	s.Site, _ = statetest.OpenMemory(t)
	files, err := tlsfiles.Open(t.TempDir(), tlsfiles.Hosts())
	must(t, err)
	server, err := apiserver.New(context.Background(), apiserver.Config{
		Controller: s.Controller, Listen: "127.0.0.1:0", Certificate: files.Certificate, CACert: files.AuthorityPEM(),
	})
	must(t, err)
	t.Cleanup(func() {
		server.Kill()
		must(t, server.Wait())
	})
	host, port := "127.0.0.1", 0
	_, err = fmt.Sscanf(server.Addr().String(), host+":%d", &port)
	must(t, err)
	address := network.NewAddress(host)
	address.Scope = network.ScopeCloudLocal
	must(t, s.SetAPIHostPorts(context.Background(), [][]network.HostPort{{{Address: address, Port: port}}}))

	quick := worker.Backoff{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}
	s.rack, err = simulated.NewRack(simulated.Options{
		Behaviour: &simulated.Behaviour{},
		Agent:     simulated.NewAgent(simulated.AgentOptions{Backoff: quick, Containers: simulatedhost.Run}),
	})
	must(t, err)
	t.Cleanup(s.rack.Close)
	s.info = api.Info{
		Addrs: []string{server.Addr().String()}, CACert: files.AuthorityPEM(), ModelUUID: s.ControllerModelUUID(),
		Tag: "machine-0", Password: params.Secret(statetest.MachinePassword), Nonce: statetest.MachineNonce,
	}
	models, err := provisioner.NewModels(provisioner.ModelsConfig{
		Info: s.info,
		Only: s.Default.ModelUUID(), Backoff: quick,
		Registry: environs.NewRegistry(map[string]environs.Provider{simulated.Name: simulated.Provider{Rack: s.rack}}),
	})
	must(t, err)
	t.Cleanup(func() {
		models.Kill()
		must(t, models.Wait())
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until a machine, nil once it is gone, is as it should be.
func (s *site) until(id, what string, content func(m *state.Machine) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := s.Default.Machines().GetAll(ctx, []string{id})
		must(s.t, err)
		if content(all[0]) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			last := "it is gone"
			if m := all[0]; m != nil {
				last = fmt.Sprintf("%s, %+v, %+v", m.Life(), m.Status(), m.InstanceStatus())
			}
			s.t.Fatalf("machine %s is not %s: %s", id, what, last)
		}
	}
}

func (s *site) started(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.until(id, "started", func(m *state.Machine) bool { return m != nil && m.Status().Status == status.Started })
	}
}

func (s *site) gone(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.until(id, "gone", func(m *state.Machine) bool { return m == nil })
	}
}

// hosts returns the machines that have instances in the rack, those without a host
// or those on one.
func (s *site) hosts(m *state.Machine) string {
	s.t.Helper()
	q := simulated.ListRequest{ControllerUUID: s.ControllerUUID(), ModelUUID: s.Default.ModelUUID()}
	if m != nil {
		id, err := m.InstanceId()
		must(s.t, err)
		q.Host = id
	}
	all, err := s.rack.List(context.Background(), q)
	must(s.t, err)
	var ids []string
	for _, i := range all {
		ids = append(ids, i.Owner.MachineID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (s *site) machine(id string) *state.Machine {
	s.t.Helper()
	m, err := s.Default.Machines().Get(context.Background(), id)
	must(s.t, err)
	return m
}

func TestContainersInContainers(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	inside := func(parent string, kind container.Type) {
		statetest.AddMachine(t, s.Default, state.MachineSpec{Parent: parent, ContainerType: kind})
	}
	inside("0", container.LXD)
	inside("0", container.KVM) // which the host turns out not to know
	s.started("0", "0/lxd/0")
	inside("0/lxd/0", container.LXD)
	inside("0/lxd/0", container.LXD)
	s.started("0/lxd/0/lxd/0", "0/lxd/0/lxd/1")
	if got := s.hosts(nil) + " - " + s.hosts(s.machine("0")) + " - " + s.hosts(s.machine("0/lxd/0")); got != "0 - 0/lxd/0 - 0/lxd/0/lxd/0 0/lxd/0/lxd/1" {
		t.Errorf("instances: %s", got)
	}
	s.until("0/kvm/0", "in error", func(m *state.Machine) bool {
		return m.Status().Status == status.Error && m.Status().Message == "unsupported container"
	})
	for _, host := range []string{"0", "0/lxd/0"} {
		if err := s.machine(host).Destroy(ctx); !errors.Is(err, kind.HasContainers) {
			t.Errorf("end of host %s = %v, want it refused", host, err)
		}
	}
	must(t, s.machine("0/lxd/0/lxd/0").Destroy(ctx))
	s.gone("0/lxd/0/lxd/0")
	if got := s.hosts(s.machine("0/lxd/0")); got != "0/lxd/0/lxd/1" {
		t.Errorf("instances on the inner host: %s", got)
	}
	must(t, s.machine("0").ForceDestroy(ctx))
	_, err := s.Cleanups().Run(ctx, time.Now())
	must(t, err)
	s.gone("0/lxd/0/lxd/1", "0/lxd/0", "0/kvm/0", "0")
	if got := s.hosts(nil); got != "" {
		t.Errorf("instances are left: %s", got)
	}
	// What is in the rack under any host would be listed as another machine's start.
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	s.started("1")
	must(t, s.machine("1").Destroy(ctx))
	s.gone("1")
}

// TestContainersEndBeforeTheirHost ends a host that waits for its container.
func TestContainersEndBeforeTheirHost(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	statetest.AddMachine(t, s.Default, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	s.started("0/lxd/0")
	must(t, s.machine("0/lxd/0").Destroy(ctx))
	s.gone("0/lxd/0")
	must(t, s.machine("0").Destroy(ctx))
	s.gone("0")
	if got := s.hosts(nil); got != "" {
		t.Errorf("instances are left: %s", got)
	}
}

// TestContainersAreTriedAgainOnRequest has a retry that an operator asks for reach the
// agent of the host: nothing else would have the container tried again.
func TestContainersAreTriedAgainOnRequest(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	for _, id := range []string{"0/lxd/0", "0/lxd/1"} { // for the second, the host's watcher is there already
		must(t, s.rack.AddFault(ctx, simulated.MachineFault{MachineID: id, Times: 1, Kind: simulated.FaultPermanent, Message: "no room on the host"}))
		statetest.AddMachine(t, s.Default, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
		s.until(id, "in error", func(m *state.Machine) bool {
			return m.Status().Status == status.Error && strings.Contains(m.Status().Message, "no room on the host")
		})
		must(t, s.machine(id).MergeStatusData(ctx, map[string]any{"transient": true}))
		s.started(id)
	}
}

// TestContainersAreGivenAddresses has containers get addresses from a subnet, and
// give them back in the end.
func TestContainersAreGivenAddresses(t *testing.T) {
	s := newSite(t)
	ctx := context.Background()
	must(t, s.UpdateControllerConfig(ctx, map[string]any{"features": []any{"address-allocation"}}, nil))
	must(t, s.Default.ModelConfig().Update(ctx, config.Update{Set: map[string]any{config.RetryDelay: "100ms"}}))
	networks := s.Default.Networks()
	const cidr, first, second = "10.0.0.0/16", "10.0.200.1", "10.0.200.2"
	must(t, networks.AddSpace(ctx, network.Space{Name: "inner"}, nil))
	must(t, networks.AddSubnet(ctx, network.Subnet{CIDR: cidr, Space: "inner", Low: first, High: second}))
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	for range 2 {
		statetest.AddMachine(t, s.Default, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	}
	s.started("0/lxd/0", "0/lxd/1")

	inside := s.status().Machines["0"].Containers
	had := inside["0/lxd/0"].DNSName
	if got := []string{had, inside["0/lxd/1"].DNSName}; !slices.Contains(got, first) || !slices.Contains(got, second) {
		t.Errorf("status shows the addresses %q, want %s and %s", got, first, second)
	}
	for _, id := range []string{"0/lxd/0", "0/lxd/1"} {
		// One address, whoever tells of it: the rack, its agent and the record.
		m := s.machine(id)
		all, given := m.Addresses(), m.Allocated()
		if len(all) != 1 || len(given) != 1 || all[0].Value != given[0].Address || all[0].SpaceName != "inner" ||
			len(m.Interfaces()) != 1 || m.Interfaces()[0].MAC != given[0].MAC || m.Interfaces()[0].CIDR != cidr {
			t.Errorf("%s: addresses %v, given %v, interfaces %v", id, all, given, m.Interfaces())
		}
	}

	// The range is used up: the next one waits until another has gone.
	statetest.AddMachine(t, s.Default, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	s.until("0/lxd/2", "waiting for an address", func(m *state.Machine) bool {
		return strings.Contains(m.InstanceStatus().Message, "exhausted")
	})
	must(t, s.machine("0/lxd/0").Destroy(ctx))
	s.gone("0/lxd/0")
	_, err := s.Cleanups().Run(ctx, time.Now())
	must(t, err)
	taken, err := networks.Addresses(ctx, cidr)
	must(t, err)
	if taken[had].Holder == "0/lxd/0" {
		t.Errorf("taken addresses: %v, want %s back", taken, had)
	}
	s.started("0/lxd/2")
	if got := s.status().Machines["0"].Containers["0/lxd/2"].DNSName; got != had {
		t.Errorf("address of the one that waited = %q, want %q, which was given back", got, had)
	}
}

// status is what an operator is shown.
func (s *site) status() params.FullStatus {
	s.t.Helper()
	info := s.info
	info.ModelUUID, info.Tag, info.Nonce = s.Default.ModelUUID(), "user-"+statetest.AdminName, ""
	info.Password = params.Secret(statetest.AdminPassword)
	c, err := api.Open(context.Background(), info, api.DialOptions{})
	must(s.t, err)
	defer c.Close()
	full, err := client.New(c).FullStatus(context.Background())
	must(s.t, err)
	return full
}
