package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/storetest"
)

// everyStore runs a test on the embedded store and on MongoDB's, on a double.
func everyStore(t *testing.T, test func(*testing.T, *statetest.Site, *storetest.Tap)) {
	t.Run("embedded", func(t *testing.T) {
		site, tap := statetest.OpenTapped(t)
		test(t, site, tap)
	})
	t.Run("mongo", func(t *testing.T) {
		server, err := mongotest.Start(mongotest.Config{})
		must(t, err)
		t.Cleanup(func() { must(t, server.Close()) })
		s, err := mongo.Open(ctx, mongo.Config{URL: server.URL("slipway-test"), Collections: state.Collections()})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		tap := storetest.NewTap(s)
		test(t, statetest.OpenWith(t, statetest.Config{Store: tap}), tap)
	})
}

// wants adds machines, and returns what they want: any host, to be configured.
func wants(t *testing.T, st *state.State, n int) []host.Want {
	t.Helper()
	out := make([]host.Want, n)
	for i := range out {
		m := statetest.AddMachine(t, st, state.MachineSpec{})
		out[i] = host.Want{MachineID: m.Id(), Request: host.Request{Nonce: "n", Data: host.Data{UserData: "of " + m.Id()}}}
	}
	return out
}

// names returns the names h0, h1 and so on.
func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("/h%d", i)
	}
	return out
}

// marked is in the context of the calls that a test looks at.
type marked struct{}

func mark(who any) context.Context { return context.WithValue(ctx, marked{}, who) }

// A hundred machines are given hosts with a few reads and one batch.
func TestManyMachinesCostFewCalls(t *testing.T) {
	everyStore(t, func(t *testing.T, site *statetest.Site, tap *storetest.Tap) {
		const n = 100
		hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
		rack(t, site, m, names(n)...)
		list := wants(t, site.Default, n+1)
		var reads, batches atomic.Int32
		tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
			switch {
			case ctx.Value(marked{}) == nil:
			case c.Method == "Apply":
				batches.Add(1)
			default:
				reads.Add(1)
			}
			return nil
		})
		got := map[string]string{}
		for i, g := range hosts.Allocate(mark("it"), site.Default, list) {
			if i == n {
				const want = "cannot give machine 100 a host: no host matches: of 100 hosts, 100 in use"
				if !errors.Is(g.Err, host.ErrNoMatch) || g.Err.Error() != want {
					t.Errorf("machine %d: %v, want %s", i, g.Err, want)
				}
				continue
			}
			if holder := got[g.Host.Name]; g.Err != nil || g.Existed || holder != "" {
				t.Fatalf("machine %d: host %q of machine %s, %v", i, g.Host.Name, holder, g.Err)
			}
			got[g.Host.Name] = list[i].MachineID
		}
		if reads.Load() > 5 || batches.Load() != 1 {
			t.Errorf("%d reads and %d batches for %d machines, want at most 5 and 1", reads.Load(), batches.Load(), n)
		}
		for name, id := range got {
			if d, err := m.Data(ctx, name); err != nil || d.UserData != "of "+id {
				t.Fatalf("data of host %s is not that of machine %s, %v", name, id, err)
			}
		}
		for i, g := range hosts.Allocate(ctx, site.Default, list[:n]) {
			if g.Err != nil || !g.Existed || got[g.Host.Name] != list[i].MachineID {
				t.Fatalf("machine %d again: %q, %v, %v", i, g.Host.Name, g.Existed, g.Err)
			}
		}
	})
}

// What one machine or host of a batch has changed into meanwhile is looked at again, and
// the rest of the batch is not.
func TestAConflictFailsNoOther(t *testing.T) {
	everyStore(t, func(t *testing.T, site *statetest.Site, tap *storetest.Tap) {
		const n = 20
		hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
		rack(t, site, m, names(n+1)...)
		list := wants(t, site.Default, n)
		list[2].Name, list[3].MachineID = "h2", "4711"
		gone, err := site.Default.Machines().Get(ctx, list[5].MachineID)
		must(t, err)
		var batches atomic.Int32
		paused := ""
		tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
			if ctx.Value(marked{}) == nil || c.Method != "Apply" || batches.Add(1) > 1 {
				return nil
			}
			for _, k := range c.Keys {
				if _, name, _ := strings.Cut(k.ID, ":"); k.Collection == state.HostsCollection && name != "h2" {
					paused = name
				}
			}
			must(t, hosts.Do(context.Background(), paused, host.MaintenanceOn))
			must(t, hosts.Do(context.Background(), "h2", host.MaintenanceOn))
			must(t, gone.EnsureDead(context.Background()))
			return nil
		})
		got := map[string]bool{}
		for i, g := range hosts.Allocate(mark("it"), site.Default, list) {
			want := map[int]error{2: host.ErrNoMatch, 3: errors.NotFound, 5: kind.Dead}[i]
			switch {
			case want != nil:
				if !errors.Is(g.Err, want.(errors.ConstError)) {
					t.Errorf("machine %d: %v, want %v", i, g.Err, want)
				}
			case g.Err != nil || got[g.Host.Name] || g.Host.Name == paused || g.Host.Name == "h2":
				t.Errorf("machine %d: host %q, %v", i, g.Host.Name, g.Err)
			}
			got[g.Host.Name] = true
		}
		if batches.Load() != 3 {
			t.Errorf("%d batches, want 3: all, all that had not changed, and the one whose host had", batches.Load())
		}
	})
}

// A machine that is named twice has its host, and another nonce is no way to a second.
func TestAMachineNamedTwice(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	rack(t, site, m, names(3)...)
	w := wants(t, site.Default, 1)[0]
	other := w
	other.Nonce = "another"
	got := hosts.Allocate(ctx, site.Default, []host.Want{w, w, other})
	if got[0].Err != nil || got[0].Existed || got[1].Err != nil || !got[1].Existed || got[1].Host.Name != got[0].Host.Name || !errors.Is(got[2].Err, errors.AlreadyExists) {
		t.Errorf("got %q %v %v, %q %v %v, %v", got[0].Host.Name, got[0].Existed, got[0].Err, got[1].Host.Name, got[1].Existed, got[1].Err, got[2].Err)
	}
}

// Naming one machine a thousand times costs what naming it twice does, also when its host
// cannot be written.
func TestAMachineNamedOftenCostsFewCalls(t *testing.T) {
	const broken = errors.ConstError("the disk is full")
	for _, fails := range []bool{false, true} {
		site, tap := statetest.OpenTapped(t)
		hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
		rack(t, site, m, names(3)...)
		list := slices.Repeat(wants(t, site.Default, 1), 1000)
		var calls atomic.Int32
		tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
			if ctx.Value(marked{}) == nil {
				return nil
			}
			calls.Add(1)
			if c.Method == "Apply" && fails {
				return broken
			}
			return nil
		})
		for i, g := range hosts.Allocate(mark("it"), site.Default, list) {
			if fails != errors.Is(g.Err, broken) || !fails && (g.Err != nil || g.Existed != (i > 0)) {
				t.Fatalf("time %d: %v, %v", i, g.Existed, g.Err)
			}
		}
		if calls.Load() > 20 {
			t.Errorf("%d calls, want at most 20", calls.Load())
		}
	}
}

// Who gets what of equal hosts is the same whenever it is asked for, and not the same for all.
func TestTheChoiceIsDeterministic(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	rack(t, site, m, names(12)...)
	list := wants(t, site.Default, 12)
	give := func(list []host.Want) (got []string) {
		for _, g := range hosts.Allocate(ctx, site.Default, list) {
			must(t, g.Err)
			got = append(got, g.Host.Name)
		}
		for _, name := range got {
			must(t, hosts.Release(ctx, site.Default, name))
		}
		return got
	}
	first := give(list)
	if again := give(list); !slices.Equal(first, again) {
		t.Errorf("hosts %q, then %q", first, again)
	}
	alone := map[string]bool{}
	for i := range list {
		alone[give(list[i : i+1])[0]] = true
	}
	if len(alone) < 3 {
		t.Errorf("each alone, twelve machines choose but %d hosts", len(alone))
	}
}

// gate holds up the store's calls of one who gives hosts.
type gate struct {
	arrived, pass, over chan struct{}
}

// interleave runs two functions, of which one at a time makes calls of the store: in each
// step the one that the schedule names, as far as it goes. Their contexts are marked with
// their gates.
func interleave(schedule []bool, run [2]func(context.Context)) {
	var gates [2]*gate
	for i, f := range run {
		g := &gate{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		gates[i] = g
		go func() {
			defer close(g.over)
			f(mark(g))
		}()
	}
	arrived := func(g *gate) bool {
		select {
		case <-g.arrived:
			return true
		case <-g.over:
			return false
		}
	}
	waiting := [2]bool{arrived(gates[0]), arrived(gates[1])}
	for step := 0; waiting[0] || waiting[1]; step++ {
		next := step % 2
		if step < len(schedule) && schedule[step] {
			next = 1 - next
		}
		if !waiting[next] {
			next = 1 - next
		}
		gates[next].pass <- struct{}{}
		waiting[next] = arrived(gates[next])
	}
}

// However two who give hosts come between one another, no host is two machines', no
// machine has two, what they are told is so, and whoever can get a host gets one.
func TestNoInterleavingGivesAHostTwice(t *testing.T) {
	everyStore(t, func(t *testing.T, site *statetest.Site, tap *storetest.Tap) {
		const n = 6
		hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
		rack(t, site, m, names(n)...)
		tap.SetBefore(func(ctx context.Context, _ storetest.Call) error {
			if g, ok := ctx.Value(marked{}).(*gate); ok {
				g.arrived <- struct{}{}
				<-g.pass
			}
			return nil
		})
		rapid.Check(t, func(rt *rapid.T) {
			machines := wants(t, site.Default, rapid.IntRange(1, n+1).Draw(rt, "machines"))
			picky := rapid.Bool().Draw(rt, "picky") // ask also for hosts by name, and with other nonces
			var lists [2][]host.Want
			for i := range lists {
				lists[i] = rapid.SliceOfN(rapid.SampledFrom(machines), 1, n).Draw(rt, "list")
				if !picky {
					continue
				}
				for j := range lists[i] {
					lists[i][j].Name = rapid.SampledFrom([]string{"", "h0", "h1"}).Draw(rt, "name")
					lists[i][j].Nonce = rapid.SampledFrom([]string{"n", "o"}).Draw(rt, "nonce")
				}
			}
			schedule := rapid.SliceOfN(rapid.Bool(), 0, 40).Draw(rt, "schedule")
			var got [2][]host.Given
			interleave(schedule, [2]func(context.Context){
				func(ctx context.Context) { got[0] = hosts.Allocate(ctx, site.Default, lists[0]) },
				func(ctx context.Context) { got[1] = hosts.Allocate(ctx, site.Default, lists[1]) },
			})
			checkHosts(rt, site, hosts, lists, got, picky || len(machines) > n)
		})
	})
}

// checkHosts compares what was told with what is, and takes all hosts back.
func checkHosts(t *rapid.T, site *statetest.Site, hosts *host.Hosts, lists [2][]host.Want, got [2][]host.Given, mayFail bool) {
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := hosts.All(ctx)
	ok(err)
	holder, of := map[string]string{}, map[string]string{}
	for _, h := range all {
		if h.Consumer == nil {
			continue
		}
		if of[h.Consumer.MachineID] != "" {
			t.Errorf("machine %s has hosts %s and %s", h.Consumer.MachineID, of[h.Consumer.MachineID], h.Name)
		}
		holder[h.Name], of[h.Consumer.MachineID] = h.Consumer.MachineID, h.Name
	}
	for i, list := range lists {
		for j, w := range list {
			machine, err := site.Default.Machines().Get(ctx, w.MachineID)
			ok(err)
			if machine.Host() != of[w.MachineID] {
				t.Errorf("machine %s has host %q, and %q is its", w.MachineID, machine.Host(), of[w.MachineID])
			}
			switch g := got[i][j]; {
			case g.Err == nil && holder[g.Host.Name] != w.MachineID:
				t.Errorf("machine %s was told that it has host %s, which is machine %s's", w.MachineID, g.Host.Name, holder[g.Host.Name])
			case g.Err != nil && !mayFail, g.Err != nil && !errors.Is(g.Err, host.ErrNoMatch) && !errors.Is(g.Err, errors.AlreadyExists):
				t.Errorf("machine %s: %v", w.MachineID, g.Err)
			}
		}
	}
	for name := range holder {
		ok(hosts.Release(ctx, site.Default, name))
	}
}
