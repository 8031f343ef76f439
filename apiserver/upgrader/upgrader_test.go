package upgrader_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/upgrader"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

func TestUpgrader(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	conn := facadetest.Connect(t, facadetest.Agent("machine-0"))
	u, err := upgrader.New(site.Default, conn)
	if err != nil {
		t.Fatal(err)
	}
	all := facadetest.Entities("machine-0", "machine-1", "rubbish")
	watch, err := u.WatchAPIVersion(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "WatchAPIVersion", []string{facadetest.Text(watch.Results[0].Error), facadetest.Text(watch.Results[1].Error)}, "", facadetest.Denied)
	if err := site.Default.ModelConfig().SetAgentVersion(ctx, "2.1.0"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.Resources.Get(watch.Results[0].NotifyWatcherID).(watcher.NotifyWatcher).Changes():
	case <-time.After(time.Minute):
		t.Error("no event for a new version")
	}
	versions, err := u.DesiredVersion(ctx, all)
	if err != nil || versions.Results[0].Version != "2.1.0" || facadetest.Text(versions.Results[1].Error) != facadetest.Denied {
		t.Errorf("DesiredVersion = %+v, %v", versions, err)
	}
	if none, err := u.DesiredVersion(ctx, params.Entities{}); err != nil || none.Results != nil {
		t.Errorf("DesiredVersion of nobody = %+v, %v, want null", none, err)
	}
	set := func(tag, version string) params.AgentTools {
		a := params.AgentTools{Tag: tag}
		a.Tools.Version = version
		return a
	}
	done, err := u.SetTools(ctx, params.SetAgentTools{AgentTools: []params.AgentTools{
		set("machine-0", "2.1.0-jammy-amd64"), set("machine-1", "2.1.0-jammy-amd64"), set("machine-0", "nonsense"),
	}})
	if err != nil || done.Results[0].Error != nil || facadetest.Text(done.Results[1].Error) != facadetest.Denied || done.Results[2].Error == nil {
		t.Errorf("SetTools = %+v, %v", done, err)
	}
	if err := m.Refresh(ctx); err != nil || m.AgentVersion() != "2.1.0-jammy-amd64" {
		t.Errorf("agent version = %q, %v", m.AgentVersion(), err)
	}
	if tools, err := u.Tools(ctx, facadetest.Entities("machine-0")); err != nil || facadetest.Text(tools.Results[0].Error) != "tools not found [not found]" {
		t.Errorf("Tools = %+v, %v, want none kept", tools, err)
	}
	if _, err := upgrader.New(site.Default, facadetest.Connect(t, facadetest.Superuser)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a person = %v, want it denied", err)
	}
}
