//go:build e2e

package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
)

const (
	many      = 200
	faultRate = 0.05
	opDelay   = time.Second // long enough to be seen by who looks ten times a second
)

// keeperVar has this program be the process that cares for hosts: its value is the
// agent file, keeperSeed's the seed.
const (
	keeperVar  = "SLIPWAY_E2E_KEEPER"
	keeperSeed = "SLIPWAY_E2E_SEED"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(keeperVar); file != "" {
		if err := keep(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// rackOptions describes the hosts' rack.
func rackOptions(seed uint64) simulated.Options {
	delays := map[simulated.Op]time.Duration{}
	for _, op := range []simulated.Op{simulated.OpRegister, simulated.OpInspect, simulated.OpProvision, simulated.OpDeprovision, simulated.OpDelete} {
		delays[op] = opDelay
	}
	return simulated.Options{Seed: seed, FaultRate: faultRate, Delays: delays}
}

// keep cares for hosts until it is killed.
func keep(agentFile string) error {
	seed, err := strconv.ParseUint(os.Getenv(keeperSeed), 10, 64)
	if err != nil {
		return err
	}
	k, err := site.StartHosts(site.HostsOptions{AgentFile: agentFile, Lease: time.Second, CallLimit: time.Second, Simulated: rackOptions(seed)})
	if err != nil {
		return err
	}
	return k.Wait()
}

// world is a site, and the process that cares for its hosts.
type world struct {
	*testing.T
	dir    site.Dir
	client *hosts.Client
	seed   uint64
	keeper *exec.Cmd
	kills  map[metal3v1alpha1.ProvisioningState]int
	images map[string]bool // of each host: whether it gets an image
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: site.Dir(t.TempDir()), seed: uint64(time.Now().UnixNano()), kills: map[metal3v1alpha1.ProvisioningState]int{}, images: map[string]bool{}}
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		w.must(err)
		w.seed = seed
	}
	t.Logf("SEED=%d", w.seed)
	registry := all.Registry(all.Backends{})
	w.must(site.Bootstrap(t.Context(), site.BootstrapOptions{Dir: w.dir, Name: "e2e", Listen: "127.0.0.1:0", Provider: "simulated", Registry: registry}))
	s, err := site.Open(t.Context(), site.Options{Dir: w.dir, Registry: registry})
	w.must(err)
	t.Cleanup(func() {
		s.Kill()
		if err := s.Wait(); err != nil {
			t.Errorf("site: %v", err)
		}
	})
	c, err := clientstore.New(w.dir.Client()).Read()
	w.must(err)
	conn, err := api.Open(t.Context(), api.Info{
		Addrs: []string{s.Addr()}, CACert: c.Controllers[c.Current].CACert,
		Tag: "user-" + c.Accounts[c.Current].User, Password: c.Accounts[c.Current].Password,
	}, api.DialOptions{})
	w.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	w.client = hosts.New(conn)
	w.start()
	t.Cleanup(w.kill)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start starts the process that cares for hosts.
func (w *world) start() {
	w.Helper()
	w.keeper = exec.Command(os.Args[0], "-test.run=^$")
	w.keeper.Env = append(os.Environ(), keeperVar+"="+w.dir.AgentFile(), keeperSeed+"="+fmt.Sprint(w.seed))
	w.must(w.keeper.Start())
}

// kill kills it.
func (w *world) kill() {
	_ = w.keeper.Process.Kill()
	_ = w.keeper.Wait() // it was killed
}

// view is a host as the API shows it.
type view struct {
	params.Host
	record metal3v1alpha1.BareMetalHost
}

func (w *world) list() map[string]view {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	list, err := w.client.List(ctx)
	w.must(err)
	out := make(map[string]view, len(list))
	for _, r := range list {
		w.must(r.Err)
		v := view{Host: r.Value}
		w.must(json.Unmarshal(r.Value.Record, &v.record))
		out[r.Value.Name] = v
	}
	return out
}

// eventually looks until content is true.
func (w *world) eventually(what string, content func(map[string]view) bool) {
	w.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		all := w.list()
		if content(all) {
			return
		}
		if time.Now().After(deadline) {
			for name, v := range all {
				w.Logf("%s: %s, %q, %s", name, v.record.Status.Provisioning.State, v.record.Status.ErrorMessage, v.Progress.Reason)
			}
			w.Fatalf("SEED=%d: not in time: %s", w.seed, what)
		}
		<-tick.C
	}
}

// add adds hosts; four of five get an image.
func (w *world) add(n int) {
	w.Helper()
	var add []params.AddHost
	for range n {
		i := len(w.images)
		name := fmt.Sprintf("host-%d", i)
		spec := metal3v1alpha1.BareMetalHostSpec{Online: true, BMC: metal3v1alpha1.BMCDetails{Address: "simulated://" + name}}
		if w.images[name] = i%5 > 0; w.images[name] {
			spec.Image = &metal3v1alpha1.Image{URL: "http://images.example.com/a"}
		}
		text, err := json.Marshal(spec)
		w.must(err)
		add = append(add, params.AddHost{Name: name, Spec: text, Credentials: params.HostCredentials{Username: "u", Password: "p"}})
	}
	added, err := w.client.Add(w.Context(), add...)
	w.must(err)
	for _, a := range added {
		w.must(a.Err)
	}
}

// killIn kills the process when a host is in a state, and starts another. If a busy
// machine has missed that, missed brings it about again.
func (w *world) killIn(state metal3v1alpha1.ProvisioningState, missed func()) {
	w.Helper()
	looks := 0
	w.eventually("a host in state "+string(state), func(all map[string]view) bool {
		for _, v := range all {
			if v.record.Status.Provisioning.State == state {
				return true
			}
		}
		if looks++; looks%100 == 0 {
			missed()
		}
		return false
	})
	w.kill()
	w.kills[state]++
	w.start()
}

// provisioned returns some hosts that have an image.
func (w *world) provisioned(n int) []string {
	w.Helper()
	var names []string
	for name, v := range w.list() {
		if len(names) < n && v.record.Status.Provisioning.State == metal3v1alpha1.StateProvisioned {
			names = append(names, name)
		}
	}
	return names
}

// predict says what becomes of a host: where it ends, and the type of its error.
func predict(rack *simulated.Rack, address bmc.Address, image bool) (metal3v1alpha1.ProvisioningState, metal3v1alpha1.ErrorType) {
	switch {
	case rack.Fault(address, simulated.OpRegister).Lasting():
		return metal3v1alpha1.StateRegistering, metal3v1alpha1.RegistrationError
	case rack.Fault(address, simulated.OpInspect).Lasting():
		return metal3v1alpha1.StateInspecting, metal3v1alpha1.InspectionError
	case !image && rack.Fault(address, simulated.OpPower).Lasting():
		return metal3v1alpha1.StateReady, metal3v1alpha1.PowerManagementError
	case !image:
		return metal3v1alpha1.StateReady, metal3v1alpha1.NoError
	case rack.Fault(address, simulated.OpProvision).Lasting():
		return metal3v1alpha1.StateProvisioning, metal3v1alpha1.ProvisioningError
	}
	return metal3v1alpha1.StateProvisioned, metal3v1alpha1.NoError
}

// settle waits until every host is where its seed says, and asks for another try
// whenever a fault that passes has put one off for minutes.
func (w *world) settle() {
	w.Helper()
	rack := simulated.New(rackOptions(w.seed))
	w.eventually("every host as its seed predicts", func(all map[string]view) bool {
		there := true
		for name, v := range all {
			address, err := bmc.Parse(v.record.Spec.BMC.Address)
			w.must(err)
			state, failure := predict(rack, address, w.images[name])
			s := v.record.Status
			if s.Provisioning.State == state && s.ErrorType == failure && v.Progress.Faults == 0 {
				continue
			}
			there = false
			if s.ErrorType != metal3v1alpha1.NoError && s.ErrorType != failure {
				w.must(w.client.Do(w.Context(), name, "retry"))
			}
		}
		return there && len(all) == len(w.images)
	})
}

// TestAHostEndsWhereItsSeedSays registers, inspects, provisions and removes 200
// hosts, with a fault in one of twenty operations, and kills the process that cares
// for them in every state.
func TestAHostEndsWhereItsSeedSays(t *testing.T) {
	rounds := 1
	if os.Getenv("SOAK") != "" {
		rounds = 3 // so many kills in each state
	}
	for round := range rounds {
		t.Run(fmt.Sprint("round ", round+1), live)
	}
}

// live is one round.
func live(t *testing.T) {
	w := newWorld(t)
	w.add(many)
	started := time.Now()
	for _, state := range []metal3v1alpha1.ProvisioningState{
		metal3v1alpha1.StateRegistering, metal3v1alpha1.StateInspecting, metal3v1alpha1.StateReady,
		metal3v1alpha1.StateProvisioning, metal3v1alpha1.StateProvisioned,
	} {
		w.killIn(state, func() { w.add(1) })
	}
	w.settle()
	t.Logf("%d hosts are where SEED=%d says after %v", len(w.images), w.seed, time.Since(started).Round(time.Second))
	rest := w.provisioned(20) // that are removed one by one, should the removal of the others be missed
	for name := range w.list() {
		if !slices.Contains(rest, name) {
			w.must(w.client.Do(t.Context(), name, "remove"))
		}
	}
	another := func() {
		if len(rest) > 0 {
			w.must(w.client.Do(t.Context(), rest[0], "remove"))
			rest = rest[1:]
		}
	}
	w.killIn(metal3v1alpha1.StateDeprovisioning, another)
	w.killIn(metal3v1alpha1.StateDeleting, another)
	for len(rest) > 0 {
		another()
	}
	w.eventually("every host gone", func(all map[string]view) bool {
		for name, v := range all {
			if v.record.Status.ErrorType != metal3v1alpha1.NoError {
				if err := w.client.Do(t.Context(), name, "retry"); err != nil && !errors.Is(err, errors.NotFound) {
					w.must(err)
				}
			}
		}
		return len(all) == 0
	})
	t.Logf("all removed after %v; killed in %v", time.Since(started).Round(time.Second), w.kills)
}
