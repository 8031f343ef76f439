package simulated_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/simulated"
)

func TestInstancesOutliveTheRack(t *testing.T) {
	dir := t.TempDir()
	var agents sync.Map // of machines
	o := simulated.Options{DataDir: dir, Behaviour: &simulated.Behaviour{}, Agent: func(ctx context.Context, a simulated.Agent) error {
		agents.Store(a.MachineID, a)
		<-ctx.Done()
		return ctx.Err()
	}}
	r := newRack(t, o)
	for i := range 5 {
		q := request(t, fmt.Sprint(i), "mem=4G")
		if i == 3 {
			q.Addresses = network.NewAddresses("10.0.200.7")
		}
		q.Volumes = []environs.VolumeParams{{ID: fmt.Sprint(i), Size: 1024, Provider: "static", Attributes: map[string]any{"foo": "bar"}}}
		want := environs.Volume{ID: q.Volumes[0].ID, VolumeID: fmt.Sprintf("sim-%d-vol-0", i+1), Size: 1024, DeviceName: "disk1"}
		if got := mustStart(t, r, q).Volumes; len(got) != 1 || got[0] != want {
			t.Errorf("volumes %v, want %v", got, want)
		}
	}
	before := mustList(t, r)
	if _, err := r.Stop(t.Context(), stop(before[4].ID, before[1].ID)); err != nil {
		t.Fatal(err)
	}
	before = mustList(t, r)
	if text := fmt.Sprint(environsText(before)); !strings.Contains(text, "10.0.200.7") {
		t.Errorf("instances: %s, want one with the address that it was given", text)
	}
	if _, err := simulated.NewRack(o); !errors.Is(err, errors.AlreadyExists) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("opening it twice = %v, want AlreadyExists naming the process", err)
	}
	r.Close()
	agents.Clear()

	again := newRack(t, o)
	after := mustList(t, again)
	if fmt.Sprintf("%+v", environsText(after)) != fmt.Sprintf("%+v", environsText(before)) || len(after) != 3 {
		t.Errorf("after: %v, want %v", environsText(after), environsText(before))
	}
	if got := mustStart(t, again, request(t, "9")); got.ID != "sim-6" {
		t.Errorf("the next id is %s, want sim-6", got.ID)
	}
	again.Close()
	if a, ok := agents.Load("0"); ok && a.(simulated.Agent).Password != "hush" {
		t.Error("the agent's password was not kept")
	}
	for _, name := range []string{"rack.journal", "rack.lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", name, info.Mode(), err)
		}
	}
}

// environsText prints instances for comparing.
func environsText(all []environs.Instance) []string {
	var out []string
	for _, i := range all {
		out = append(out, fmt.Sprint(i.ID, i.Owner, i.Nonce, i.Status, i.Addresses, i.Hardware, i.Volumes))
	}
	return out
}

func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	o := instant()
	o.DataDir = dir
	r := newRack(t, o)
	mustStart(t, r, request(t, "0"))
	mustStart(t, r, request(t, "1"))
	r.Close()
	path := filepath.Join(dir, "rack.journal")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for _, c := range []struct {
		name, text string
		want       int // instances; -1 means that it is refused
	}{
		{"cut off", lines[0] + lines[1] + lines[2][:20], 1},
		{"whole", string(whole), 2},
		{"damaged inside", lines[0] + "xxx\n" + lines[2], -1},
		{"foreign", "hello\n", -1},
		{"another format", `{"format":"other"}` + "\n", -1},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := simulated.NewRack(o)
		if c.want < 0 {
			if !errors.Is(err, errors.NotValid) {
				t.Errorf("%s: NewRack = %v, want NotValid", c.name, err)
			}
			if now, _ := os.ReadFile(path); string(now) != c.text {
				t.Errorf("%s: the file was changed", c.name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := mustList(t, r); len(got) != c.want {
			t.Errorf("%s: %d instances, want %d", c.name, len(got), c.want)
		}
		r.Close()
	}
}

func TestBehaviourIsKept(t *testing.T) {
	o := simulated.Options{DataDir: t.TempDir()}
	r := newRack(t, o)
	b := simulated.Behaviour{Seed: 7, Faults: map[simulated.Call]map[simulated.FaultKind]float64{simulated.CallList: {simulated.FaultBusy: 1}}}
	if err := r.SetBehaviour(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r = newRack(t, o)
	if got, err := r.Behaviour(t.Context()); err != nil || got.Seed != 7 {
		t.Errorf("Behaviour = %+v, %v", got, err)
	}
	if _, err := r.List(t.Context(), mine); !errors.Is(err, environs.ErrBusy) {
		t.Errorf("List = %v, want ErrBusy", err)
	}
	b.Faults[simulated.CallList][simulated.FaultBusy] = 2
	if err := r.SetBehaviour(t.Context(), b); !errors.Is(err, errors.NotValid) {
		t.Errorf("SetBehaviour = %v, want NotValid", err)
	}
}

func TestTenThousandMachines(t *testing.T) {
	o := instant()
	o.DataDir = t.TempDir()
	r := newRack(t, o)
	const n = 10000
	began := time.Now()
	for i := range n {
		mustStart(t, r, request(t, fmt.Sprint(i)))
	}
	if took := time.Since(began); took > 3*time.Minute { // a hundred times what it takes
		t.Errorf("%d starts took %v", n, took)
	}
	all := mustList(t, r)
	if len(all) != n {
		t.Fatalf("%d instances, want %d", len(all), n)
	}
	seen := map[string]bool{}
	var ids []instance.ID
	for _, i := range all {
		seen[i.Addresses[0].Value] = true
		ids = append(ids, i.ID)
	}
	if len(seen) != n {
		t.Errorf("%d addresses, want %d", len(seen), n)
	}
	if _, err := r.Stop(t.Context(), stop(ids...)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	info, err := os.Stat(filepath.Join(o.DataDir, "rack.journal"))
	if err != nil || info.Size() > 2<<20 {
		t.Errorf("the journal of an empty rack has %d bytes, %v", info.Size(), err)
	}
	if left := mustList(t, newRack(t, o)); len(left) != 0 {
		t.Errorf("%d instances are left", len(left))
	}
}

func BenchmarkStart(b *testing.B) {
	o := instant()
	o.DataDir = b.TempDir()
	r := newRack(b, o)
	i := 0
	for b.Loop() {
		i++
		mustStart(b, r, request(b, fmt.Sprint(i)))
	}
}
