package history_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/internal/history"
)

// failures collects what a test would fail with.
type failures struct {
	testing.TB
	all []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// ops makes a history of deeds, one after the other unless they say when they were.
func ops(all ...porcupine.Operation) []porcupine.Operation {
	for i := range all {
		if all[i].Return == 0 {
			all[i].Call, all[i].Return = int64(2*i), int64(2*i+1)
		}
		all[i].ClientId = i
	}
	return all
}

func op(what string, out history.Seen) porcupine.Operation {
	return porcupine.Operation{Input: history.Deed{What: what, Machine: "0", Message: "m", Instance: "i"}, Output: out}
}

func TestMachines(t *testing.T) {
	done, unknown := history.Seen{}, history.Seen{Unknown: true}
	refused := func(r history.Refusal) history.Seen { return history.Seen{Refusal: r} }
	alive, dead := history.Seen{Life: life.Alive}, history.Seen{Life: life.Dead}
	early := porcupine.Operation{Input: history.Deed{What: "kill", Machine: "0"}, Output: unknown, Call: 1, Return: 100}
	tests := []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"a life", ops(op("add", done), op("read", alive), op("record", done), op("status", done),
			op("read", history.Seen{Life: life.Alive, Instance: "i", Message: "m"}), op("destroy", done), op("record", refused(history.NotAlive)),
			op("kill", done), op("remove", done), op("read", done)), true},
		{"two instances", ops(op("add", done), op("record", done), op("record", done)), false},
		{"refused as it should be", ops(op("add", done), op("record", done), op("record", refused(history.AlreadySet))), true},
		{"refused without a reason", ops(op("add", done), op("record", refused(history.AlreadySet))), false},
		{"a refusal nobody knows", ops(op("add", done), op("status", refused("disk full"))), false},
		{"a lost write", ops(op("add", done), op("kill", done), op("read", alive)), false},
		{"a lost machine", ops(op("add", done), op("read", done)), false},
		{"a write whose answer was lost, done", ops(op("add", done), early, op("read", dead)), true},
		{"a write whose answer was lost, not done", ops(op("add", done), early, op("read", alive)), true},
		{"one done and undone again", ops(op("add", done), early, op("read", dead), op("read", alive)), false},
		{"contention does nothing", ops(op("add", done), op("kill", refused(history.Contention)), op("read", alive)), true},
		{"removed too early", ops(op("add", done), op("remove", done)), false},
		{"gone, and told so", ops(op("kill", refused(history.NotFound)), op("remove", done), op("status", refused(history.NotFound))), true},
		{"there, and not found", ops(op("add", done), op("kill", refused(history.NotFound))), false},
		{"added twice", ops(op("add", done), op("add", done)), false},
	}
	for _, tt := range tests {
		if got := porcupine.CheckOperations(history.Machines(history.Seen{}), tt.ops); got != tt.want {
			t.Errorf("%s: explained = %v, want %v", tt.name, got, tt.want)
		}
	}
	f := &failures{TB: t}
	history.Explain(f, history.Machines(history.Seen{}), ops(op("read", alive)))
	if len(f.all) != 1 {
		t.Errorf("Explain of what cannot be explained = %q", f.all)
	}
}

func TestRecord(t *testing.T) {
	n := 0
	do := func(dice *rand.Rand, client int) (*history.Deed, func() history.Seen) {
		if n++; n > 4 {
			return nil, nil
		}
		d := history.Any(dice, client, "0")
		d.What = []string{"", "add", "read", "kill", "read"}[n]
		return d, func() history.Seen { return history.Seen{Unknown: n > 2} }
	}
	got := history.Record(history.Recording{Clients: 1, Seed: 1, Do: do})
	var text []string
	for _, o := range got {
		text = append(text, fmt.Sprintf("%s by %d until the end: %v", o.Input.(history.Deed).What, o.ClientId, o.Return > 1<<62))
	}
	want := "add by 0 until the end: false, read by 0 until the end: false, kill by 3 until the end: true" // the last read is unknown
	if strings.Join(text, ", ") != want {
		t.Errorf("Record = %q, want %q", strings.Join(text, ", "), want)
	}
}

func TestFollower(t *testing.T) {
	var f *history.Follower
	lives := func(all ...string) history.Lives {
		now := map[string]life.Value{}
		for _, a := range all {
			id, l, _ := strings.Cut(a, " ")
			now[id] = life.Value(l)
		}
		return func([]string) (map[string]life.Value, error) { return now, nil }
	}
	end := func(all ...string) {
		now, _ := lives(all...)(nil)
		f.End(now)
	}
	take := func(ids string, all ...string) {
		if err := f.Take(strings.Fields(ids), lives(all...)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		run  func()
		want string
	}{
		{"all well", func() {
			f.Begin()
			take("0 1", "0 alive", "1 alive")
			take("0", "0 dying", "1 alive")
			f.Begin()
			take("0 1", "0 dying", "1 alive")
			take("0 2", "0 dead", "2 alive")
			if !f.Reached("0", life.Dying) || f.Reached("2", life.Dying) || f.Reached("9", life.Alive) {
				t.Error("Reached is wrong")
			}
			end("1 alive", "2 alive", "3 dead")
		}, ""},
		{"removed while nobody watched", func() {
			f.Begin()
			take("0", "0 alive")
			f.Begin()
			take("")
			end()
		}, ""},
		{"back in time", func() { f.Begin(); take("0", "0 dying"); take("0", "0 alive") }, "went backwards"},
		{"back in time with the next watcher", func() { f.Begin(); take("0", "0 dead"); f.Begin(); take("0", "0 dying") }, "went backwards"},
		{"back from the dead", func() { f.Begin(); take("0"); f.Begin(); take("0", "0 alive") }, "went backwards"},
		{"missed", func() { f.Begin(); take("0", "0 alive"); end("0 dying") }, "is dying in the end"},
		{"missed altogether", func() { f.Begin(); take(""); end("0 alive") }, "is alive in the end"},
		{"its end missed", func() { f.Begin(); take("0", "0 alive"); end() }, "is gone in the end"},
		{"left out at first", func() { f.Begin(); take("0", "0 alive"); f.Begin(); take("", "0 alive") }, "does not name it"},
		{"named too often", func() { f.Begin(); take("0", "0 alive"); take("0", "0 alive"); end("0 alive") }, "named 2 times"},
		{"named too often before", func() { f.Begin(); take("0", "0 alive"); take("0", "0 alive"); f.Begin(); take("0", "0 dead") }, "named 2 times"},
	}
	for _, tt := range tests {
		got := &failures{TB: t}
		f = history.NewFollower(got)
		tt.run()
		if all := strings.Join(got.all, "; "); tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, all, tt.want)
		}
	}
	f = history.NewFollower(t)
	f.Begin()
	failure := errors.New("broken")
	if err := f.Take([]string{"0"}, func([]string) (map[string]life.Value, error) { return nil, failure }); err != failure {
		t.Errorf("Take = %v", err)
	}
	f.End(nil)
}
