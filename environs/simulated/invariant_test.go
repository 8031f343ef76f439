package simulated_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/simulated"
)

// TestOneInstanceForAMachine starts, stops and restarts at random, with calls
// that fail before and after they have done their work, and holds the rack to
// what it promised: a machine has one instance at most, the one whose nonce was
// first; what is listed is what was started and not stopped; and nothing
// changes when the rack is opened again.
func TestOneInstanceForAMachine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "rack")
		if err != nil {
			rt.Fatal(err)
		}
		o := simulated.Options{DataDir: dir, Behaviour: &simulated.Behaviour{
			Seed: rapid.Uint64().Draw(rt, "seed"),
			Faults: map[simulated.Call]map[simulated.FaultKind]float64{
				simulated.CallStart: {simulated.FaultBusy: 0.1, simulated.FaultTransient: 0.1, simulated.FaultAnswerLost: 0.2},
				simulated.CallStop:  {simulated.FaultTransient: 0.1, simulated.FaultAnswerLost: 0.2},
			},
		}}
		rack, err := simulated.NewRack(o)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { rack.Close() }()
		list := func() map[string]environs.Instance { // by machine
			all, err := rack.List(t.Context(), mine)
			if err != nil {
				rt.Fatal(err)
			}
			out := map[string]environs.Instance{}
			for _, i := range all {
				if other, twice := out[i.Owner.MachineID]; twice {
					rt.Fatalf("machine %s has %s and %s", i.Owner.MachineID, other.ID, i.ID)
				}
				out[i.Owner.MachineID] = i
			}
			return out
		}
		seen := map[instance.ID]bool{} // ids are never used again
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				q := request(t, fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "machine")))
				q.Agent.Nonce = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "nonce")
				before, had := list()[q.Owner.MachineID]
				reply, err := rack.Start(t.Context(), q)
				after, has := list()[q.Owner.MachineID]
				switch {
				case had && before.Nonce == q.Agent.Nonce && (err != nil || !reply.Existed || reply.Instance.ID != before.ID):
					rt.Fatalf("repeated start = %+v, %v, want %s", reply, err, before.ID)
				case had && before.Nonce != q.Agent.Nonce && !errors.Is(err, errors.AlreadyExists):
					rt.Fatalf("second start = %v, want AlreadyExists", err)
				case had && after.ID != before.ID:
					rt.Fatalf("%s became %s", before.ID, after.ID)
				case !had && err == nil && (!has || after.ID != reply.Instance.ID || seen[after.ID]):
					rt.Fatalf("start gave %s, %s is listed", reply.Instance.ID, after.ID)
				}
				seen[after.ID] = true
			},
			"stop": func(rt *rapid.T) {
				machine := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "machine"))
				before := list()
				id := before[machine].ID
				results, err := rack.Stop(t.Context(), stop(id))
				after := list()
				if err != nil || results[0] == nil && !after[machine].IsZero() {
					rt.Fatalf("stop of %s = %v, %v, and %v is listed", id, results, err, after[machine])
				}
				delete(before, machine)
				for m, i := range before {
					if after[m].ID != i.ID {
						rt.Fatalf("stop of %s took %s with it", id, i.ID)
					}
				}
			},
			"restart": func(rt *rapid.T) {
				if rapid.IntRange(0, 5).Draw(rt, "rarely") > 0 {
					return
				}
				before := list()
				rack.Close()
				if rack, err = simulated.NewRack(o); err != nil {
					rt.Fatal(err)
				}
				after := list()
				for m, i := range before {
					if after[m].ID != i.ID || after[m].Nonce != i.Nonce {
						rt.Fatalf("machine %s has %s after a restart, want %s", m, after[m].ID, i.ID)
					}
				}
				if len(after) != len(before) {
					rt.Fatalf("%d instances after a restart, want %d", len(after), len(before))
				}
			},
		})
	})
}
