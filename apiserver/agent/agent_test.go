package agent_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/agent"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestAgent(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	a, err := agent.New(site.Default, facadetest.Connect(t, facadetest.Agent("machine-0-lxd-0")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.GetEntities(ctx, facadetest.Entities("machine-0-lxd-0", "machine-0", "machine-42", "rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	if e := got.Entities[0]; e.Life != "alive" || e.ContainerType != "lxd" || len(e.Jobs) != 1 || e.Error != nil {
		t.Errorf("GetEntities = %+v", e)
	}
	var out []string
	for _, e := range got.Entities[1:] {
		out = append(out, facadetest.Text(e.Error))
	}
	facadetest.Equal(t, "GetEntities", out, facadetest.Denied, facadetest.Denied, `"rubbish" is not a valid tag`)
	set, err := a.SetPasswords(ctx, params.EntityPasswords{Changes: []params.EntityPassword{
		{Tag: "machine-0-lxd-0", Password: "a new password of 24 bytes"}, {Tag: "machine-0", Password: "a new password of 24 bytes"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetPasswords", facadetest.Texts(set.Results), "", facadetest.Denied)
	if err := m.Refresh(ctx); err != nil || !m.PasswordValid("a new password of 24 bytes") {
		t.Errorf("the new password does not validate (%v)", err)
	}
	cleared, err := a.ClearReboot(ctx, facadetest.Entities("machine-0-lxd-0", "machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "ClearReboot", facadetest.Texts(cleared.Results), "", facadetest.Denied)
	if _, err := agent.New(site.Default, facadetest.Connect(t, facadetest.Superuser)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a person = %v, want it denied", err)
	}
}
