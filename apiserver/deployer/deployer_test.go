package deployer_test

import (
	"fmt"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/deployer"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

func TestOnlyAgentsGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Reader, facadetest.Superuser} {
		if _, err := deployer.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
}

func TestAMachineHasNoUnits(t *testing.T) {
	ctx := t.Context()
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	conn := facadetest.Connect(t, facadetest.Agent("machine-0"))
	d, err := deployer.New(site.Default, conn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.WatchUnits(ctx, facadetest.Entities("machine-0", "machine-1", "machine-42", "unit-foo-0", "rubbish"))
	if err != nil || len(got.Results) != 5 {
		t.Fatalf("WatchUnits = %+v, %v", got, err)
	}
	if r := got.Results[0]; r.Error != nil || r.StringsWatcherID == "" || len(r.Changes) != 0 {
		t.Errorf("WatchUnits of the own machine = %+v, want a watcher of nothing", r)
	}
	for _, r := range got.Results[1:] {
		if facadetest.Text(r.Error) != facadetest.Denied {
			t.Errorf("WatchUnits of another = %+v, want it denied", r)
		}
	}
	w := conn.Resources.Get(got.Results[0].StringsWatcherID).(watcher.StringsWatcher)
	ended := make(chan error, 1)
	go func() {
		_, err := common.Next(ctx, w, w.Changes())
		ended <- err
	}()
	if err := conn.Resources.Stop(got.Results[0].StringsWatcherID); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, common.ErrStopped) {
		t.Errorf("Next of a watcher that was stopped = %v", err)
	}
}

// TestUnitsAreDenied asks about units, and about the caller's own machine, which is
// none.
func TestUnitsAreDenied(t *testing.T) {
	ctx := t.Context()
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	d, err := deployer.New(site.Default, facadetest.Connect(t, facadetest.Agent("machine-0")))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"unit-foo-0", "machine-0"} {
		e := facadetest.Entities(tag)
		life, lifeErr := d.Life(ctx, e)
		removed, removeErr := d.Remove(ctx, e)
		set, setErr := d.SetPasswords(ctx, params.EntityPasswords{Changes: []params.EntityPassword{{Tag: tag, Password: "a-password-of-many-characters"}}})
		status, statusErr := d.SetStatus(ctx, params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: tag, Status: "started"}}})
		for _, err := range []error{lifeErr, removeErr, setErr, statusErr} {
			if err != nil {
				t.Error(err)
			}
		}
		facadetest.Equal(t, tag, []string{
			facadetest.Text(life.Results[0].Error), facadetest.Text(removed.Results[0].Error),
			facadetest.Text(set.Results[0].Error), facadetest.Text(status.Results[0].Error),
		}, facadetest.Denied, facadetest.Denied, facadetest.Denied, facadetest.Denied)
	}
}

func TestConnectionInfo(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	if err := site.SetAPIHostPorts(t.Context(), [][]network.HostPort{{{Address: network.NewAddress("10.0.0.1"), Port: 17070}}}); err != nil {
		t.Fatal(err)
	}
	d, err := deployer.New(site.Default, facadetest.Connect(t, facadetest.Agent("machine-0")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.ConnectionInfo(t.Context())
	if want := "{[10.0.0.1:37017] [10.0.0.1:17070]}"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("ConnectionInfo = %v, %v, want %v", got, err, want)
	}
}
