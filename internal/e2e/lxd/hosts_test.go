//go:build e2e

package lxd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

// open opens a model of busybox containers, with settings besides.
func open(t *testing.T, hosts map[string]string, attrs map[string]any) environs.Environ {
	t.Helper()
	provider := lxd.New(lxd.Options{Hosts: hosts})
	all := map[string]any{
		config.Name: "m", config.Type: lxd.Name, config.UUID: providertest.Model,
		lxd.ImageKey: "base", lxd.CloudInitKey: false, lxd.HasAgentKey: true,
	}
	for k, v := range attrs {
		all[k] = v
	}
	cfg, err := config.New(all)
	if err == nil {
		cfg, err = provider.Validate(cfg, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := provider.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if all, err := e.AllInstances(ctx); err == nil && len(all) > 0 {
			if err := e.Destroy(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

func params(machine int) environs.StartInstanceParams {
	return providertest.Params(providertest.Site, providertest.Model, fmt.Sprint(machine), base.Default())
}

// A daemon on another machine is reached over HTTPS: it has to have the pinned
// certificate, and to trust ours.
func TestHTTPSWithCertificates(t *testing.T) {
	address := testport.Free(t, 1)[0]
	daemon.must(t, "config", "set", "core.https_address", address)
	t.Cleanup(func() { daemon.must(t, "config", "unset", "core.https_address") })
	server, err := os.ReadFile(filepath.Join(daemon.state(), "server.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pair := func(name string) tlsfiles.Pair {
		p, err := tlsfiles.NewAuthority(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	trusted, stranger := pair("trusted"), pair("stranger")
	path := filepath.Join(t.TempDir(), "client.crt")
	if err := os.WriteFile(path, trusted.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	daemon.must(t, "config", "trust", "add", path, "--name", "slipway-test")
	project := daemon.project(t)
	for name, c := range map[string]struct {
		client tlsfiles.Pair
		server string
		want   string // in the error; empty means success
	}{
		"trusted":                    {trusted, string(server), ""},
		"another client":             {stranger, string(server), "lxc config trust add"},
		"another server":             {trusted, string(stranger.Cert), "the LXD server's certificate is not one of those known"},
		"one of several for servers": {trusted, string(stranger.Cert) + string(server), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, nil, map[string]any{
				lxd.HostsKey: "far=https://" + address, lxd.ProjectKey: project, lxd.ServerCertsKey: c.server,
				lxd.ClientCertKey: string(c.client.Cert), lxd.ClientKeyKey: string(c.client.Key),
			})
			r, err := e.StartInstance(t.Context(), params(0))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "LXD server far") {
					t.Errorf("StartInstance = %v, want one line with %q", err, c.want)
				}
				return
			}
			if err != nil || r.Instance.Zone() != "far" {
				t.Fatalf("StartInstance = %+v, %v", r, err)
			}
			if errs, err := e.StopInstances(t.Context(), []instance.ID{r.Instance.ID}); err != nil || errs[0] != nil {
				t.Errorf("StopInstances = %v, %v", errs, err)
			}
		})
	}
}

// Two daemons are two zones, which machines are spread over. While one is
// silent, nothing is started, as a machine may run there, and what is on the other
// can be removed.
func TestTwoDaemonsAreZones(t *testing.T) {
	other := another(t, nil)
	e := open(t, map[string]string{"a": daemon.address(), "b": other.address()}, nil)
	zones := map[string][]instance.ID{}
	for i := range 4 {
		p := params(i)
		if i == 3 {
			p.Placement = "zone=b"
		}
		r, err := e.StartInstance(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		zones[r.Instance.Zone()] = append(zones[r.Instance.Zone()], r.Instance.ID)
	}
	if len(zones["a"])+len(zones["b"]) != 4 || len(zones["a"]) == 0 || len(zones["b"]) < 2 {
		t.Errorf("instances by zone: %v", zones)
	}
	if got := len(other.containers(t, "default")); got != len(zones["b"]) {
		t.Errorf("the daemon of zone b has %d containers, want %d", got, len(zones["b"]))
	}

	other.kill(syscall.SIGKILL)
	available := map[string]bool{}
	found, err := e.(environs.Zoned).AvailabilityZones(t.Context())
	for _, z := range found {
		available[z.Name] = z.Available
	}
	if err != nil || !available["a"] || available["b"] {
		t.Errorf("AvailabilityZones = %v, %v, want b unavailable", found, err)
	}
	if _, err := e.StartInstance(t.Context(), params(9)); !errors.Is(err, environs.ErrBusy) || !strings.Contains(err.Error(), "LXD server b") {
		t.Errorf("StartInstance = %v, want busy because of server b", err)
	}
	errs, err := e.StopInstances(t.Context(), []instance.ID{zones["a"][0], zones["b"][0]})
	if err != nil || errs[0] != nil || errs[1] == nil {
		t.Errorf("StopInstances = %v, %v, want success and an error", errs, err)
	}
	if err := other.start(); err != nil {
		t.Fatal(err)
	}
	if all, err := e.AllInstances(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("AllInstances = %v, %v, want the 3 that are left", all, err)
	}
}

// Two models on one daemon do not see each other's containers, even if their
// machines have the same names.
func TestTwoModelsOnOneDaemon(t *testing.T) {
	const another = "cafebabe-0bad-400d-8000-000000000002"
	hosts := map[string]string{"a": daemon.address()}
	one, two := open(t, hosts, nil), open(t, hosts, map[string]any{config.UUID: another})
	started := map[string]instance.ID{}
	for model, e := range map[string]environs.Environ{providertest.Model: one, another: two} {
		r, err := e.StartInstance(t.Context(), providertest.Params(providertest.Site, model, "0", base.Default()))
		if err != nil {
			t.Fatal(err)
		}
		started[model] = r.Instance.ID
	}
	if all, err := one.AllInstances(t.Context()); err != nil || len(all) != 1 || all[0].ID != started[providertest.Model] {
		t.Errorf("AllInstances = %+v, %v, want the model's own", all, err)
	}
	if errs, err := one.StopInstances(t.Context(), []instance.ID{started[another]}); err != nil || errs[0] != nil {
		t.Errorf("StopInstances of another model's = %v, %v, want that there is none", errs, err)
	}
	if all, err := two.AllInstances(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("AllInstances of the other model = %+v, %v", all, err)
	}
}
