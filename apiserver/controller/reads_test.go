package controller_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/client"
	"github.com/slipway-project/slipway/apiserver/controller"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

// maker is how these tests make the facade.
var maker = controller.Maker{Follow: client.Follow}

func open(t *testing.T, who facadetest.Caller) (*controller.V5, *statetest.Site) {
	t.Helper()
	site := statetest.OpenWith(t, statetest.Config{ControllerConfig: map[string]any{"ca-cert": "PEM"}})
	c, err := maker.V5(site.Management, facadetest.Connect(t, who))
	if err != nil {
		t.Fatal(err)
	}
	return c, site
}

func TestOnlyPeopleGetTheFacade(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Manager, facadetest.Agent("machine-1")} {
		if _, err := maker.V3(site.Management, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("V3 for %+v = %v, want it denied", who, err)
		}
		if _, err := maker.V5(site.Management, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("V5 for %+v = %v, want it denied", who, err)
		}
	}
}

func TestModels(t *testing.T) {
	c, site := open(t, facadetest.Superuser)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	all, err := c.AllModels(ctx)
	if err != nil || len(all.UserModels) != 2 {
		t.Fatalf("AllModels = %+v, %v, want both", all, err)
	}
	name := "model-" + site.Default.ModelUUID()
	got, err := c.ModelStatus(ctx, facadetest.Entities(name))
	want := params.ModelStatus{ModelTag: name, Life: "alive", HostedMachineCount: 1, OwnerTag: "user-admin"}
	if err != nil || len(got.Results) != 1 || got.Results[0] != want {
		t.Errorf("ModelStatus = %+v, %v, want %+v", got, err, want)
	}
	if _, err := c.ModelStatus(ctx, facadetest.Entities("model-deadbeef-0bad-400d-8000-4b1d0d06f00d")); !errors.Is(err, errors.NotFound) {
		t.Errorf("ModelStatus of a missing model = %v, want not found", err)
	}
	if _, err := c.ModelStatus(ctx, facadetest.Entities("machine-0")); err == nil {
		t.Error("ModelStatus of a machine succeeds")
	}
}

func TestConfig(t *testing.T) {
	c, site := open(t, facadetest.Superuser)
	if err := c.ConfigSet(ctx, params.ControllerConfigSet{Config: map[string]any{"features": []any{"address-allocation"}}}); err != nil {
		t.Fatal(err)
	}
	for what, set := range map[string]any{"(people can set features)": map[string]any{"ca-cert": "x"},
		"no list": map[string]any{"features": "all"}, "known:": map[string]any{"features": []any{"flying"}}} {
		if err := c.ConfigSet(ctx, params.ControllerConfigSet{Config: set.(map[string]any)}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("ConfigSet of %v = %v, want %q", set, err, what)
		}
	}
	got, err := c.ControllerConfig(ctx)
	if err != nil || got.Config["ca-cert"] != "PEM" || got.Config["controller-uuid"] != site.ControllerUUID() || len(got.Config["features"].([]any)) != 1 {
		t.Errorf("ControllerConfig = %v, %v", got, err)
	}
	model, err := c.ModelConfig(ctx)
	if err != nil || model.Config["name"].Value != "controller" {
		t.Errorf("ModelConfig = %v, %v", model, err)
	}
	for _, secret := range []string{"authorized-keys", "rack-password"} {
		if _, told := model.Config[secret]; told {
			t.Errorf("%s is told", secret)
		}
	}
}

func TestOthersSeeOnlyThemselves(t *testing.T) {
	c, site := open(t, facadetest.Writer)
	if _, err := site.Users().Add(ctx, state.UserSpec{Name: "writer", Password: "writer-password", Access: "login"}); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"AllModels":   func() error { _, err := c.AllModels(ctx); return err },
		"ModelStatus": func() error { _, err := c.ModelStatus(ctx, params.Entities{}); return err },
		"ModelConfig": func() error { _, err := c.ModelConfig(ctx); return err },
		"ConfigSet":   func() error { return c.ConfigSet(ctx, params.ControllerConfigSet{}) },
	} {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", name, err)
		}
	}
	got, err := c.GetControllerAccess(ctx, facadetest.Entities("user-writer", "user-admin", "user-nobody", "machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range got.Results {
		text := facadetest.Text(r.Error)
		if r.Result != nil {
			text = r.Result.UserTag + " " + r.Result.Access
		}
		texts = append(texts, text)
	}
	facadetest.Equal(t, "GetControllerAccess", texts, "user-writer login", facadetest.Denied, facadetest.Denied, `"machine-0" is not a valid user tag`)
}
