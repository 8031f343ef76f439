package lxd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

func TestSettingsAreChecked(t *testing.T) {
	pair, err := tlsfiles.NewAuthority("client", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(more map[string]any) map[string]any {
		attrs := map[string]any{
			lxd.HostsKey: "r1=https://10.0.0.1:8443 r2=https://10.0.0.2:8443", lxd.ClientCertKey: string(pair.Cert),
			lxd.ClientKeyKey: string(pair.Key), lxd.ServerCertsKey: string(pair.Cert),
		}
		for k, v := range more {
			attrs[k] = v
		}
		return attrs
	}
	for _, c := range []struct {
		name  string
		attrs map[string]any
		bad   string // in the error; empty means that the settings are good
	}{
		{name: "nothing"},
		{name: "own socket", attrs: map[string]any{lxd.HostsKey: "z=unix:///run/lxd.socket"}},
		{name: "https", attrs: trusted(nil)},
		{name: "another socket", attrs: map[string]any{lxd.HostsKey: "z=unix:///etc/passwd"}, bad: "sockets"},
		{name: "plain http", attrs: map[string]any{lxd.HostsKey: "z=http://10.0.0.1"}, bad: "want zone=https"},
		{name: "no zone name", attrs: map[string]any{lxd.HostsKey: "a/b=https://10.0.0.1"}, bad: "zone"},
		{name: "path in address", attrs: trusted(map[string]any{lxd.HostsKey: "z=https://10.0.0.1/x"}), bad: "10.0.0.1/x"},
		{name: "no client certificate", attrs: map[string]any{lxd.HostsKey: "z=https://10.0.0.1"}, bad: "client certificate"},
		{name: "no server certificate", attrs: trusted(map[string]any{lxd.ServerCertsKey: ""}), bad: "certificate of an LXD server"},
		{name: "unknown placeholder", attrs: map[string]any{lxd.ImageKey: "{os}"}, bad: "placeholders"},
		{name: "image server without TLS", attrs: map[string]any{lxd.ImageServerKey: "http://images"}, bad: "https://"},
		{name: "bad user data", attrs: map[string]any{config.CloudInitUserData: "runcmd: [x]"}, bad: "runcmd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			attrs := map[string]any{config.Name: "m", config.Type: lxd.Name, config.UUID: providertest.Model}
			for k, v := range c.attrs {
				attrs[k] = v
			}
			cfg, err := config.New(attrs)
			if err != nil {
				t.Fatal(err)
			}
			provider := lxd.New(lxd.Local("/run/lxd.socket", ""))
			if cfg, err = provider.Validate(cfg, nil); err == nil {
				err = use(t, provider, cfg)
			}
			switch {
			case c.bad == "" && err != nil:
				t.Errorf("Validate = %v, want nil", err)
			case c.bad != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.bad)):
				t.Errorf("Validate = %v, want NotValid with %q", err, c.bad)
			case err != nil && strings.Contains(fmt.Sprint(err), "PRIVATE KEY"):
				t.Error("the error holds a key")
			}
		})
	}
}

func TestNoServerIsAnError(t *testing.T) {
	cfg, err := config.New(map[string]any{config.Name: "m", config.Type: lxd.Name, config.UUID: providertest.Model})
	if err != nil {
		t.Fatal(err)
	}
	provider := lxd.New(lxd.Options{})
	if cfg, err = provider.Validate(cfg, nil); err != nil {
		t.Fatalf("Validate = %v: what servers there are is for the worker to say", err)
	}
	err = use(t, provider, cfg)
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), lxd.HostsKey) {
		t.Errorf("using it = %v, want NotValid that names %s", err, lxd.HostsKey)
	}
}

// use opens a model, and asks for the hosts that it has.
func use(t *testing.T, p *lxd.Provider, cfg *config.Config) error {
	t.Helper()
	e, err := p.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: cfg})
	if err != nil {
		return err
	}
	if err := e.Precheck(t.Context(), environs.PrecheckParams{}); err != nil {
		t.Errorf("Precheck = %v: it does not need hosts", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // there are none to be reached
	_, err = e.StopInstances(ctx, []instance.ID{"x"})
	return err
}
