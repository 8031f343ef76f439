package containers_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/containers"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

func TestOnlyAgentsGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	if _, err := containers.New(site.Default, facadetest.Connect(t, facadetest.Superuser)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a person = %v, want it denied", err)
	}
}

// TestRetriesOfOwnContainersAreTold has the agent of a host hear of its own direct
// containers and of nothing else.
func TestRetriesOfOwnContainersAreTold(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	statetest.AddMachine(t, st, state.MachineSpec{})
	statetest.AddMachine(t, st, state.MachineSpec{})
	inside := func(parent string) *state.Machine {
		t.Helper()
		m := statetest.AddMachine(t, st, state.MachineSpec{Parent: parent, ContainerType: container.LXD})
		if err := m.SetStatus(ctx, status.Info{Status: status.Error, Message: "no room"}); err != nil {
			t.Fatal(err)
		}
		return m
	}
	theirs, ours := inside("0"), inside("1")
	nested := inside("1/lxd/0")
	conn := facadetest.Connect(t, facadetest.Agent("machine-1"))
	api, err := containers.New(st, conn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.WatchRetries(ctx, facadetest.Entities("machine-1", "machine-0", "machine-1-lxd-0", "machine-42", "rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range got.Results {
		out = append(out, r.NotifyWatcherID+facadetest.Text(r.Error))
	}
	facadetest.Equal(t, "WatchRetries", out, "1", facadetest.Denied, facadetest.Denied, facadetest.Denied, `"rubbish" is not a valid tag`)

	w := conn.Resources.Get("1").(watcher.NotifyWatcher)
	again := map[string]any{"transient": true}
	for _, m := range []*state.Machine{theirs, nested} {
		if err := m.MergeStatusData(ctx, again); err != nil {
			t.Fatal(err)
		}
	}
	// A container that comes passes through the same hub: once it is told, so were the
	// requests before.
	lives, err := site.Default.Machines().Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Kill()
	<-lives.Changes()
	statetest.AddMachine(t, st, state.MachineSpec{})
	<-lives.Changes()
	select {
	case <-w.Changes():
		t.Error("an event although nobody asked for another try of a container of machine 1")
	default:
	}
	if err := ours.MergeStatusData(ctx, again); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Changes():
	case <-time.After(time.Minute):
		t.Error("no event after another try of container 1/lxd/0 was asked for")
	}
}
