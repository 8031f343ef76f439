package modelconfig_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/modelconfig"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func open(t *testing.T) (*modelconfig.ModelConfig, *statetest.Site) {
	t.Helper()
	site := statetest.OpenWith(t, statetest.Config{ModelConfig: map[string]any{
		"authorized-keys": "ssh-rsa k", "zones": 5, "rack-password": "s3cret", "stray": "who knows",
	}})
	m, err := modelconfig.New(site.Default, facadetest.Connect(t, facadetest.Writer))
	if err != nil {
		t.Fatal(err)
	}
	return m, site
}

func TestOnlyWhoMayWriteGetsTheFacade(t *testing.T) {
	_, site := open(t)
	for _, who := range []facadetest.Caller{facadetest.Reader, facadetest.Manager, {}} {
		if _, err := modelconfig.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
}

func TestModelGetTellsNoSecrets(t *testing.T) {
	m, _ := open(t)
	got, err := m.ModelGet(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"authorized-keys", "rack-password", "stray"} {
		if v, ok := got.Config[name]; ok {
			t.Errorf("%s is told: %v", name, v)
		}
	}
	if v := got.Config["name"]; v.Value != "default" || v.Source != "model" {
		t.Errorf("name = %+v, want default, of the model", v)
	}
	if v := got.Config["development"]; v.Value != false || v.Source != "default" {
		t.Errorf("development = %+v, want false, by default", v)
	}
	if v, ok := got.Config["zones"]; !ok || v.Source != "model" {
		t.Errorf("zones = %+v, want the provider's own setting", v)
	}
}

func TestModelSetAndUnset(t *testing.T) {
	m, site := open(t)
	tests := []struct {
		name string
		call func() error
		want string // part of the error
	}{
		{"set", func() error {
			return m.ModelSet(ctx, params.ModelSet{Config: map[string]any{"development": true, "zones": "7"}})
		}, ""},
		{"unset", func() error { return m.ModelUnset(ctx, params.ModelUnset{Keys: []string{"zones"}}) }, ""},
		{"unknown", func() error { return m.ModelSet(ctx, params.ModelSet{Config: map[string]any{"colour": "red"}}) }, "colour"},
		{"immutable", func() error { return m.ModelSet(ctx, params.ModelSet{Config: map[string]any{"name": "other"}}) }, "name"},
		{"not for people", func() error {
			return m.ModelSet(ctx, params.ModelSet{Config: map[string]any{"agent-version": "9.9.9"}})
		}, "agent-version"},
		{"bad value", func() error { return m.ModelSet(ctx, params.ModelSet{Config: map[string]any{"development": "maybe"}}) }, "development"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.call()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
	settings, err := site.Default.ModelConfig().Get(ctx)
	if err != nil || !settings.Development() || settings.Name() != "default" {
		t.Errorf("settings = %v, %v", settings, err)
	}
}
