package block_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/block"
	"github.com/slipway-project/slipway/apiserver/client"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/modelmanager"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func TestWhoMayDoWhat(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Manager, {Tag: "user-x"}} {
		if _, err := block.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	b, err := block.New(site.Default, facadetest.Connect(t, facadetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.SwitchBlockOn(ctx, params.BlockSwitchParams{Type: "BlockChange"}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("SwitchBlockOn of a reader = %v, want it denied", err)
	}
	if _, err := b.SwitchBlockOff(ctx, params.BlockSwitchParams{Type: "BlockChange"}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("SwitchBlockOff of a reader = %v, want it denied", err)
	}
	if got, err := b.List(ctx); err != nil || got.Results != nil {
		t.Errorf("List = %+v, %v, want nothing", got, err)
	}
}

func TestBlocksAreHeeded(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	conn := facadetest.Connect(t, facadetest.Writer)
	b, err := block.New(site.Default, conn)
	if err != nil {
		t.Fatal(err)
	}
	machines, err := client.New(site.Default, conn)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"destroy": func() error { return machines.DestroyMachines(ctx, params.DestroyMachines{}) },
		"force":   func() error { return machines.DestroyMachines(ctx, params.DestroyMachines{Force: true}) },
	}
	check := func(on string, blocked ...string) {
		t.Helper()
		for name, call := range calls {
			want := ""
			for _, one := range blocked {
				if one == name {
					want = "not today"
				}
			}
			if err := call(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("with %s on, %s = %v, want %q", on, name, err, want)
			}
		}
	}
	do := func(call func(context.Context, params.BlockSwitchParams) (params.ErrorResult, error), kind string) string {
		t.Helper()
		r, err := call(ctx, params.BlockSwitchParams{Type: kind, Message: "not today"})
		if err != nil {
			t.Fatal(err)
		}
		return facadetest.Text(r.Error)
	}
	check("nothing")
	facadetest.Equal(t, "switching", []string{
		do(b.SwitchBlockOn, "BlockRemove"), do(b.SwitchBlockOn, "BlockRemove"), do(b.SwitchBlockOff, "BlockChange"), do(b.SwitchBlockOn, "BlockAll"),
	}, "", "block BlockRemove is already ON", "block BlockChange is already OFF", `block type "BlockAll" (use BlockChange, BlockRemove or BlockDestroy) not valid`)
	check("BlockRemove", "destroy")
	facadetest.Equal(t, "switching", []string{do(b.SwitchBlockOff, "BlockRemove"), do(b.SwitchBlockOn, "BlockChange"), do(b.SwitchBlockOn, "BlockDestroy")}, "", "", "")
	check("BlockChange", "destroy")
	got, err := b.List(ctx)
	if err != nil || len(got.Results) != 2 || got.Results[0].Result != (params.Block{ID: "0", Tag: "model-" + site.Default.ModelUUID(), Type: "BlockChange", Message: "not today"}) {
		t.Errorf("List = %+v, %v", got, err)
	}
	managers, err := modelmanager.New(site.Management, facadetest.Connect(t, facadetest.Superuser))
	if err != nil {
		t.Fatal(err)
	}
	ended, err := managers.DestroyModels(ctx, facadetest.Entities("model-"+site.Default.ModelUUID()))
	if err != nil || facadetest.Text(ended.Results[0].Error) != "not today [operation is blocked]" {
		t.Errorf("DestroyModels = %+v, %v, want it blocked", ended, err)
	}
}
