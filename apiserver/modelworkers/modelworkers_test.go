package modelworkers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/modelworkers"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

var ctx = context.Background()

func open(t *testing.T, site *statetest.Site, who facadetest.Caller) (*modelworkers.ModelWorkers, common.Connection) {
	t.Helper()
	conn := facadetest.Connect(t, who)
	m, err := modelworkers.New(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	return m, conn
}

func TestWhoGetsTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Writer, facadetest.Agent("machine-1"), {}} {
		if _, err := modelworkers.New(site.Management, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	m, _ := open(t, site, facadetest.Manager)
	if _, err := m.AddWorkers(ctx, params.AddWorkers{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("AddWorkers by a manager = %v, want it denied", err)
	}
	if _, err := m.RemoveWorkers(ctx, params.RemoveWorkers{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("RemoveWorkers by a manager = %v, want it denied", err)
	}
	s, _ := open(t, site, facadetest.Superuser)
	if _, err := s.WatchModels(ctx); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("WatchModels by a superuser = %v, want it denied", err)
	}
}

func TestWatchModels(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m, conn := open(t, site, facadetest.Manager)
	got, err := m.WatchModels(ctx)
	if err != nil || len(got.Changes) != 2 {
		t.Fatalf("WatchModels = %+v, %v, want both models", got, err)
	}
	added, err := site.Models().Add(ctx, state.ModelSpec{Name: "lab", Owner: "admin", Config: map[string]any{"type": "simulated"}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case ids := <-conn.Resources.Get(got.StringsWatcherID).(watcher.StringsWatcher).Changes():
		if len(ids) != 1 || ids[0] != added.UUID() {
			t.Errorf("event = %q, want the new model", ids)
		}
	case <-time.After(time.Minute):
		t.Error("no event for a new model")
	}
}

func TestWorkersComeAndGo(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m, conn := open(t, site, facadetest.Superuser)
	got, err := m.AddWorkers(ctx, params.AddWorkers{Workers: []params.AddWorker{{Name: "east"}, {Name: "east"}, {Name: "no good"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := got.Results[0].Result
	if w == nil || w.ModelUUID != site.ControllerModelUUID() || !strings.HasPrefix(w.Tag, "machine-") || len(w.Password) < 24 || w.Nonce == "" {
		t.Fatalf("AddWorkers = %+v", got.Results[0])
	}
	if got.Results[1].Error == nil || got.Results[1].Error.Code != params.CodeAlreadyExists || got.Results[2].Error == nil {
		t.Errorf("AddWorkers of a name in use and a bad one = %+v", got.Results[1:])
	}
	identity, err := site.Management.Machines().Get(ctx, strings.TrimPrefix(w.Tag, "machine-"))
	if err != nil || !identity.IsManager() || !identity.PasswordValid(string(w.Password)) || !identity.CheckProvisioned(w.Nonce) {
		t.Errorf("identity = %+v, %v, want a manager that can log in", identity, err)
	}
	gone, err := m.RemoveWorkers(ctx, params.RemoveWorkers{Names: []string{"east", "east"}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "RemoveWorkers", facadetest.Texts(gone.Results), "", `worker "east" not found [not found]`)
	facadetest.Equal(t, "connections ended", conn.Sessions.(*facadetest.Sessions).Dropped, site.ControllerModelUUID()+" "+w.Tag)
	if _, err := site.Management.Machines().Get(ctx, identity.Id()); !errors.Is(err, errors.NotFound) {
		t.Errorf("the identity of a removed worker: %v, want it gone", err)
	}
}
