package state_test

import (
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestWatchRetriesFiresWhenATryIsAskedFor(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	st := site.Default
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	w := st.Machines().WatchRetries()
	defer w.Kill()
	<-w.Changes() // the first event
	failed := status.Info{Status: status.Error, Message: "no room", Data: map[string]any{"transient": true}}
	if err := m.SetStatus(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	if err := m.MergeStatusData(t.Context(), map[string]any{"other": true}); err != nil {
		t.Fatal(err)
	}
	// A change of life passes through the same hub: once it is told, so were
	// the ones before.
	lives, err := st.Machines().Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Kill()
	<-lives.Changes()
	statetest.AddMachine(t, st, state.MachineSpec{})
	wantNext(t, lives, "1")
	select {
	case <-w.Changes():
		t.Error("an event although nobody asked for another try")
	default:
	}
	for range 2 {
		if err := m.MergeStatusData(t.Context(), map[string]any{"transient": true}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.Changes():
		case <-time.After(patience):
			t.Fatal("no event after another try was asked for")
		}
	}
}
