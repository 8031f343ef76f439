package simulated_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/environs/simulated"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request asks for an instance for a machine, with pairs of name=value
// constraints.
func request(t testing.TB, machine string, cons ...string) simulated.StartRequest {
	t.Helper()
	v, err := constraints.Parse(cons...)
	if err != nil {
		t.Fatal(err)
	}
	return simulated.StartRequest{
		Owner:       environs.Owner{ControllerUUID: providertest.Site, ModelUUID: providertest.Model, MachineID: machine},
		Agent:       simulated.Agent{MachineID: machine, ModelUUID: providertest.Model, Nonce: "n-" + machine, Password: "hush"},
		Base:        "ubuntu@22.04",
		Constraints: v,
	}
}

var mine = simulated.ListRequest{ControllerUUID: providertest.Site, ModelUUID: providertest.Model}

func stop(ids ...instance.ID) simulated.StopRequest {
	return simulated.StopRequest{ControllerUUID: providertest.Site, ModelUUID: providertest.Model, IDs: ids}
}

func mustStart(t testing.TB, r *simulated.Rack, q simulated.StartRequest) environs.Instance {
	t.Helper()
	reply, err := r.Start(t.Context(), q)
	if err != nil {
		t.Fatalf("Start(%s): %v", q.Owner.MachineID, err)
	}
	return reply.Instance
}

func mustList(t testing.TB, r simulated.Backend) []environs.Instance {
	t.Helper()
	all, err := r.List(t.Context(), mine)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return all
}

func TestHardwareIsChosenByConstraints(t *testing.T) {
	r := newRack(t, instant())
	for i, c := range []struct{ cons, placement, want string }{
		{"", "", "arch=amd64 cores=1 cpu-power=100 mem=2048M root-disk=20480M availability-zone=zone1"},
		{"mem=4G", "zone=zone3", "arch=amd64 cores=4 cpu-power=400 mem=8192M root-disk=81920M availability-zone=zone3"},
		{"arch=arm64", "", "arch=arm64 cores=8 cpu-power=600 mem=16384M root-disk=163840M tags=ssd availability-zone=zone2"},
		{"tags=gpu", "zone=zone1", "arch=amd64 cores=32 cpu-power=3200 mem=262144M root-disk=1024000M tags=ssd,gpu availability-zone=zone1"},
		{"tags=ssd,^gpu cores=20", "zone=zone1", "arch=amd64 cores=64 cpu-power=6400 mem=524288M root-disk=2048000M tags=ssd,nvme availability-zone=zone1"},
		{"instance-type=power", "zone=zone1", "arch=ppc64el cores=20 cpu-power=3000 mem=131072M root-disk=819200M availability-zone=zone1"},
	} {
		q := request(t, fmt.Sprint(i), c.cons)
		q.Placement = c.placement
		if got := mustStart(t, r, q).Hardware.String(); got != c.want {
			t.Errorf("%q %s: hardware %q, want %q", c.cons, c.placement, got, c.want)
		}
	}
}

func TestUnmetConstraintsAreCounted(t *testing.T) {
	r := newRack(t, instant())
	_, err := r.Start(t.Context(), request(t, "0", "mem=1P arch=arm64 tags=ssd"))
	want := `no hardware meets constraints "arch=arm64 mem=1073741824M tags=ssd": of 7 kinds, arch=arm64 excludes 6, mem=1073741824M excludes 7, tags=ssd excludes 3`
	if environs.ClassOf(err) != environs.Permanent || err.Error() != want {
		t.Errorf("Start = %v, want %q", err, want)
	}
}

func TestMachinesAreSpreadOverZones(t *testing.T) {
	r := newRack(t, instant())
	var zones []string
	var group []instance.ID
	for i := range 4 {
		inst := mustStart(t, r, request(t, fmt.Sprint(i)))
		zones = append(zones, inst.Zone())
		if i == 0 {
			group = append(group, inst.ID)
		}
	}
	if want := []string{"zone1", "zone2", "zone3", "zone1"}; !slices.Equal(zones, want) {
		t.Errorf("zones = %q, want %q", zones, want)
	}
	q := request(t, "9")
	q.Group = group // only the first, in zone1
	if got := mustStart(t, r, q).Zone(); got != "zone2" {
		t.Errorf("kept away from zone1: %s, want zone2", got)
	}
}

func TestFullZones(t *testing.T) {
	o := instant()
	o.Zones = []environs.Zone{{Name: "a", Available: true}, {Name: "b", Available: true}, {Name: "off"}}
	o.Kinds = []simulated.Kind{{Name: "only", Arch: "amd64", Cores: 1, Mem: 1024, PerZone: 1}}
	r := newRack(t, o)
	first := mustStart(t, r, request(t, "0"))
	full := request(t, "1")
	full.Placement = "zone=a"
	if _, err := r.Start(t.Context(), full); environs.ClassOf(err) != environs.ZoneSpecific || !strings.Contains(err.Error(), "zone a has not one free") {
		t.Errorf("Start in a full zone = %v", err)
	}
	if got := mustStart(t, r, request(t, "1")).Zone(); got != "b" {
		t.Errorf("the second machine is in %s, want b", got)
	}
	if _, err := r.Start(t.Context(), request(t, "2")); environs.ClassOf(err) != environs.ZoneSpecific {
		t.Errorf("Start in a full rack = %v", err)
	}
	if _, err := r.Stop(t.Context(), stop(first.ID)); err != nil {
		t.Fatal(err)
	}
	if got := mustStart(t, r, request(t, "2")); got.Zone() != "a" || got.ID == first.ID {
		t.Errorf("after a stop: %s in %s", got.ID, got.Zone())
	}
}

func TestFaultsOfStart(t *testing.T) {
	for _, c := range []struct {
		kind  simulated.FaultKind
		class environs.Class
		text  string
		left  int // instances
	}{
		{simulated.FaultBusy, environs.Retryable, "start of machine 0: the rack is busy", 0},
		{simulated.FaultTransient, environs.Retryable, "start of machine 0: the power controller did not answer", 0},
		{simulated.FaultPermanent, environs.Permanent, "start of machine 0: the hardware is broken for good", 0},
		{simulated.FaultAnswerLost, environs.Retryable, "start of machine 0: the answer was lost", 1},
		{simulated.FaultHang, environs.Retryable, "start of machine 0: no answer: context deadline exceeded", 0},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{Faults: map[simulated.Call]map[simulated.FaultKind]float64{
					simulated.CallStart: {c.kind: 1},
				}}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := r.Start(ctx, request(t, "0"))
				if err == nil || environs.ClassOf(err) != c.class || err.Error() != c.text {
					t.Errorf("Start = %v (%s), want %q (%s)", err, environs.ClassOf(err), c.text, c.class)
				}
				if errors.Is(err, environs.ErrBusy) != (c.kind == simulated.FaultBusy) {
					t.Errorf("busy = %v", errors.Is(err, environs.ErrBusy))
				}
				if got := mustList(t, r); len(got) != c.left {
					t.Errorf("%d instances are there, want %d", len(got), c.left)
				}
			})
		})
	}
}

func TestLostAnswerIsFoundAgain(t *testing.T) {
	r := newRack(t, instant())
	if err := r.AddFault(t.Context(), simulated.MachineFault{MachineID: "0", Times: 1, Kind: simulated.FaultAnswerLost}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), request(t, "0")); err == nil {
		t.Fatal("the answer was not lost")
	}
	left := mustList(t, r)
	if len(left) != 1 || left[0].Owner.MachineID != "0" || left[0].Nonce != "n-0" {
		t.Fatalf("List = %+v", left)
	}
	reply, err := r.Start(t.Context(), request(t, "0"))
	if err != nil || !reply.Existed || reply.Instance.ID != left[0].ID {
		t.Errorf("Start again = %+v, %v, want %s", reply, err, left[0].ID)
	}
}

func TestFaultOfZoneTriesTheNext(t *testing.T) {
	r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{Faults: map[simulated.Call]map[simulated.FaultKind]float64{
		simulated.CallStart: {simulated.FaultZoneFull: 1},
	}}})
	if got := mustStart(t, r, request(t, "0")).Zone(); got != "zone2" {
		t.Errorf("zone = %s, want zone2", got)
	}
	q := request(t, "1")
	q.Placement = "zone=zone1"
	if _, err := r.Start(t.Context(), q); environs.ClassOf(err) != environs.ZoneSpecific {
		t.Errorf("Start = %v, want a zone-specific error", err)
	}
}

func TestOneMachineIsMadeToFail(t *testing.T) {
	r := newRack(t, instant())
	placed := request(t, "0")
	placed.Placement = "zone=zone2,fail=2"
	fault := simulated.MachineFault{ModelUUID: providertest.Model, MachineID: "1", Times: 2, Message: "fan is stuck"}
	if err := r.AddFault(t.Context(), fault); err != nil {
		t.Fatal(err)
	}
	for try := 1; try <= 2; try++ {
		want := fmt.Sprintf("start of machine 0: simulated fault %d of 2: the power controller did not answer", try)
		if _, err := r.Start(t.Context(), placed); err == nil || err.Error() != want {
			t.Errorf("try %d = %v, want %q", try, err, want)
		}
		if _, err := r.Start(t.Context(), request(t, "1")); err == nil || err.Error() != "start of machine 1: fan is stuck" {
			t.Errorf("try %d = %v", try, err)
		}
		mustStart(t, r, request(t, fmt.Sprint(10+try))) // others are not affected
	}
	if got := mustStart(t, r, placed).Zone(); got != "zone2" {
		t.Errorf("zone = %s, want zone2", got)
	}
	mustStart(t, r, request(t, "1"))
	for _, bad := range []simulated.MachineFault{{}, {MachineID: "0"}, {MachineID: "0", Times: 1, Kind: "cheese"}} {
		if err := r.AddFault(t.Context(), bad); !errors.Is(err, errors.NotValid) {
			t.Errorf("AddFault(%+v) = %v, want NotValid", bad, err)
		}
	}
}

func TestFaultsOfStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(t, instant())
		a, b := mustStart(t, r, request(t, "0")), mustStart(t, r, request(t, "1"))
		rates := func(kind simulated.FaultKind) {
			err := r.SetBehaviour(t.Context(), simulated.Behaviour{Faults: map[simulated.Call]map[simulated.FaultKind]float64{
				simulated.CallStop: {kind: 1},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []simulated.FaultKind{simulated.FaultBusy, simulated.FaultTransient, simulated.FaultPermanent, simulated.FaultHang} {
			rates(kind)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			results, err := r.Stop(ctx, stop(a.ID, "unknown"))
			cancel()
			if err != nil || len(results) != 2 || results[0] == nil || results[1] != nil {
				t.Errorf("%s: Stop = %v, %v", kind, results, err)
			}
			if len(mustList(t, r)) != 2 {
				t.Errorf("%s: an instance is gone", kind)
			}
		}
		rates(simulated.FaultAnswerLost)
		if results, err := r.Stop(t.Context(), stop(b.ID)); err != nil || results[0] == nil || len(mustList(t, r)) != 1 {
			t.Errorf("answer lost: Stop = %v, %v", results, err)
		}
	})
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second, err := simulated.ParseDistribution("fixed 1s")
		if err != nil {
			t.Fatal(err)
		}
		r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{Delays: map[simulated.Call]simulated.Distribution{
			simulated.CallStart: second, simulated.CallStop: second, simulated.CallList: second,
		}}})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 50 { // all at the same time
			wg.Go(func() { mustStart(t, r, request(t, fmt.Sprint(i))) })
		}
		synctest.Wait()
		if _, err := r.Start(t.Context(), request(t, "0")); !errors.Is(err, environs.ErrBusy) {
			t.Errorf("a start while the machine is being started = %v, want ErrBusy", err)
		}
		wg.Wait()
		all := mustList(t, r)
		var ids []instance.ID
		for _, i := range all {
			ids = append(ids, i.ID)
		}
		if _, err := r.Stop(t.Context(), stop(ids...)); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("starting, listing and stopping took %v, want 3s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := r.Start(ctx, request(t, "0")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start with a deadline = %v", err)
		}
		if got := mustList(t, r); len(got) != 0 {
			t.Errorf("a start that was given up left %v", got)
		}
	})
}

func TestStopWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second, _ := simulated.ParseDistribution("fixed 1s")
		r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{
			Delays: map[simulated.Call]simulated.Distribution{simulated.CallStart: second},
		}})
		result := make(chan error, 1)
		go func() {
			_, err := r.Start(t.Context(), request(t, "0"))
			result <- err
		}()
		synctest.Wait()
		all := mustList(t, r)
		if len(all) != 1 || all[0].Status != "allocating" || all[0].Nonce != "" || all[0].Owner.MachineID != "0" {
			t.Fatalf("List while starting = %+v", all)
		}
		if _, err := r.Stop(t.Context(), stop(all[0].ID)); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err == nil || !strings.Contains(err.Error(), "was stopped meanwhile") {
			t.Errorf("Start = %v", err)
		}
		if got := mustList(t, r); len(got) != 0 {
			t.Errorf("List = %v", got)
		}
	})
}

func TestAgentEndsWithItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		boot, _ := simulated.ParseDistribution("fixed 5s")
		r := newRack(t, simulated.Options{
			Behaviour: &simulated.Behaviour{Delays: map[simulated.Call]simulated.Distribution{simulated.CallBoot: boot}},
			Agent: func(ctx context.Context, a simulated.Agent) error {
				if len(a.Addresses) != 1 || a.Nonce != "n-"+a.MachineID {
					t.Errorf("agent %s got %v", a, a.Addresses)
				}
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				return ctx.Err()
			},
		})
		a := mustStart(t, r, request(t, "0"))
		mustStart(t, r, request(t, "1"))
		synctest.Wait()
		if got := running.Load(); got != 0 {
			t.Errorf("%d agents run before their instances have booted", got)
		}
		time.Sleep(5 * time.Second) // fake time, in the bubble
		synctest.Wait()
		if got := running.Load(); got != 2 {
			t.Errorf("%d agents run, want 2", got)
		}
		if _, err := r.Stop(t.Context(), stop(a.ID)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := running.Load(); got != 1 {
			t.Errorf("%d agents run after a stop, want 1", got)
		}
		r.Close()
		if got := running.Load(); got != 0 {
			t.Errorf("%d agents run after Close", got)
		}
		if _, err := r.Start(t.Context(), request(t, "2")); !errors.Is(err, environs.ErrBusy) {
			t.Errorf("Start after Close = %v", err)
		}
	})
}
