package state_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
	"github.com/slipway-project/slipway/watcher"
)

var ctx = context.Background()

// patience is how long a test waits for what must come.
const patience = time.Minute

// next returns a StringsWatcher's next event, sorted.
func next(t *testing.T, w watcher.StringsWatcher) []string {
	t.Helper()
	select {
	case ids, ok := <-w.Changes():
		if !ok {
			t.Fatalf("watcher ended: %v", w.Wait())
		}
		ids = slices.Clone(ids)
		tag.SortMachines(ids)
		return ids
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return nil
}

func wantNext(t *testing.T, w watcher.StringsWatcher, want ...string) {
	t.Helper()
	if got := next(t, w); !slices.Equal(got, want) {
		t.Fatalf("event names %q, want %q", got, want)
	}
}

func TestAddGetAndWatchMachines(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	w, err := st.Machines().Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	wantNext(t, w)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	wantNext(t, w, "0")
	c := statetest.AddMachine(t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	if c.Id() != "0/lxd/0" {
		t.Errorf("container id %s, want 0/lxd/0", c.Id())
	}
	found, err := st.FindEntities(ctx, []tag.Tag{m.Tag(), c.Tag(), tag.NewMachineTag("7")})
	if err != nil {
		t.Fatal(err)
	}
	if got := found[1].Entity.(*state.Machine).Id(); got != "0/lxd/0" {
		t.Errorf("found %s, want 0/lxd/0", got)
	}
	if !errors.Is(found[2].Err, errors.NotFound) || found[2].Err.Error() != "machine 7 not found" {
		t.Errorf("found %v, want machine 7 not found", found[2].Err)
	}
	if err := m.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(ctx); err == nil || err.Error() != `machine 0 is hosting containers "0/lxd/0"` {
		t.Errorf("Destroy = %v", err)
	}
	for _, end := range []func(context.Context) error{c.Destroy, c.EnsureDead, c.Remove, m.EnsureDead, m.Remove} {
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantNext(t, w, "0")
}

// documents returns how many documents a store holds.
func documents(t *testing.T, s store.Store) int {
	t.Helper()
	n := 0
	for _, c := range state.Collections() {
		page, err := s.List(ctx, store.Query{Collection: c.Name})
		must(t, err)
		n += len(page.Docs)
	}
	return n
}

func TestInitializeOnceAndOpen(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	params := state.InitializeParams{AdminPassword: "x", ModelConfig: map[string]any{"type": "simulated"},
		Machine: state.FirstMachine{Nonce: "n", Password: statetest.MachinePassword}}
	if _, err := state.Initialize(ctx, tap, params); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("second Initialize = %v", err)
	}
	again, err := state.Open(ctx, tap, state.Options{})
	must(t, err)
	if again.ControllerUUID() != site.ControllerUUID() || again.ControllerModelUUID() != site.ControllerModelUUID() {
		t.Error("another site was opened")
	}
	must(t, again.Close())
	manager := get(t, site.Management, "0")
	if !manager.IsManager() || !manager.PasswordValid(statetest.MachinePassword) || !manager.CheckProvisioned(statetest.MachineNonce) {
		t.Error("machine 0 cannot log in as a manager")
	}
	if m := statetest.AddMachine(t, site.Management, state.MachineSpec{Jobs: []job.Job{job.ManageModel}}); m.Id() != "1" {
		t.Errorf("second machine of the controller model is %s", m.Id())
	}
	empty := storetest.New(t, state.Collections())
	if _, err := state.Open(ctx, empty, state.Options{}); !errors.Is(err, errors.NotFound) {
		t.Errorf("Open of an empty store = %v", err)
	}
	for _, bad := range []func(*state.InitializeParams){
		func(p *state.InitializeParams) { p.AdminPassword = "" },
		func(p *state.InitializeParams) { p.ModelConfig = nil },
		func(p *state.InitializeParams) { p.Machine.Password = "short" },
		func(p *state.InitializeParams) { p.AdminName = "a b" },
	} {
		p := params
		bad(&p)
		if _, err := state.Initialize(ctx, empty, p); !errors.Is(err, errors.NotValid) {
			t.Errorf("Initialize with something missing = %v", err)
		}
	}
	if n := documents(t, empty); n != 0 {
		t.Errorf("%d documents after failed attempts", n)
	}
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	_, tap := statetest.OpenMemory(t)
	d, err := tap.Get(ctx, store.Key{Collection: "site", ID: "_:controller"})
	must(t, err)
	newer := strings.Replace(string(d.Data), `"format":2`, `"format":3`, 1)
	must(t, tap.Apply(ctx, []store.Op{store.Replace(d.Key, d.Rev, []byte(newer), nil)}))
	if _, err := state.Open(ctx, tap, state.Options{}); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Open of a newer format = %v", err)
	}
}

func TestFindEntityOfEachKind(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	admin, err := tag.NewUserTag("admin")
	must(t, err)
	unit, err := tag.ParseTag("unit-web-0")
	must(t, err)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	found, err := st.FindEntities(ctx, []tag.Tag{admin, unit, m.Tag(), tag.NewModelTag(st.ModelUUID())})
	must(t, err)
	if u, ok := found[0].Entity.(*state.User); !ok || u.Name() != "admin" {
		t.Errorf("user: %+v", found[0])
	}
	wantError(t, found[1].Err, "unit web/0 not found", errors.NotFound)
	if found[1].Entity != nil {
		t.Error("an entity beside an error")
	}
	if got, ok := found[2].Entity.(*state.Machine); !ok || got.Id() != "0" {
		t.Errorf("machine: %+v", found[2])
	}
	if model, ok := found[3].Entity.(*state.Model); !ok || model.Name() != "default" {
		t.Errorf("model: %+v", found[3])
	}
	if e, err := st.FindEntity(ctx, tag.NewMachineTag("9")); e != nil || !errors.Is(err, errors.NotFound) {
		t.Errorf("FindEntity of a missing machine = %v, %v", e, err)
	}
}

// TestDocuments shows what is stored. A change of the golden file is a change of the
// format: it must read what older versions wrote.
func TestDocuments(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	now := time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)
	site := statetest.OpenWith(t, statetest.Config{Store: tap, Options: state.Options{Now: func() time.Time { return now }},
		ControllerConfig: map[string]any{"api-port": 17070}})
	st := site.Default
	mem := uint64(4096)
	spec := state.MachineSpec{Placement: "zone=a", Group: "web", Constraints: constraints.Value{Mem: &mem}}
	m := statetest.AddMachine(t, st, spec)
	must(t, m.SetPassword(ctx, statetest.MachinePassword))
	must(t, m.SetStatus(ctx, status.Info{Status: status.Error, Message: "no room", Data: map[string]any{"transient": true}}))
	must(t, m.SetInstanceStatus(ctx, status.Info{Status: status.Allocating}))
	must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-1", Nonce: "n", Hardware: hardware.Characteristics{Mem: &mem},
		Addresses: network.NewAddresses("10.0.0.1")}))
	must(t, m.SetSupportedContainers(ctx, []container.Type{container.LXD}))
	c := statetest.AddMachine(t, st, state.MachineSpec{Parent: "0", ContainerType: container.LXD})
	must(t, c.EnsureDead(ctx))
	must(t, c.MarkForRemoval(ctx))
	must(t, m.ForceDestroy(ctx))
	must(t, site.SetAPIHostPorts(ctx, [][]network.HostPort{{{Address: network.NewAddress("10.0.0.2"), Port: 17070}}}))
	_, err := site.Workers().Add(ctx, state.WorkerSpec{Name: "w", Nonce: "n", Password: statetest.MachinePassword})
	must(t, err)
	model, err := st.Model(ctx)
	must(t, err)
	must(t, model.RecordLogin(ctx, "admin", now))
	_, err = st.Lease().Claim(ctx, "machine-0", 6*time.Second)
	must(t, err)
	var b strings.Builder
	for _, col := range state.Collections() {
		page, err := tap.List(ctx, store.Query{Collection: col.Name})
		must(t, err)
		var lines []string
		for _, d := range page.Docs {
			lines = append(lines, fmt.Sprintf("%s %s %s\n", col.Name, d.ID, d.Data))
		}
		for i, line := range lines {
			for text, name := range map[string]string{site.ControllerUUID(): "CONTROLLER", st.ModelUUID(): "DEFAULT", site.Management.ModelUUID(): "MANAGEMENT"} {
				line = strings.ReplaceAll(line, text, name)
			}
			lines[i] = regexp.MustCompile(`\$argon2id[^"]*`).ReplaceAllString(line, "HASH")
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	golden.Check(t, "documents.golden", b.String())
}
