package lxd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/environs/providertest"
)

// agentBinary returns the path of something that can be written to a disk as a
// static agent.
func agentBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "provisionerd")
	if err := os.WriteFile(path, []byte("static agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// fixture is a model on doubles of LXD daemons, one for each zone a, b and so on.
type fixture struct {
	*testing.T
	servers  map[string]*lxdtest.Server
	provider *lxd.Provider
	environ  environs.Environ
}

// newFixture returns a model whose images have no cloud-init, unless attrs say
// otherwise.
func newFixture(t *testing.T, attrs map[string]any, zones ...string) *fixture {
	t.Helper()
	f := &fixture{T: t, servers: map[string]*lxdtest.Server{}}
	options := lxd.Options{Hosts: map[string]string{}, AgentBinary: agentBinary(t)}
	for _, zone := range zones {
		f.servers[zone] = lxdtest.NewServer(t, "base", "ubuntu/24.04")
		options.Hosts[zone] = f.servers[zone].Address
	}
	f.provider = lxd.New(options)
	var err error
	f.environ, err = f.provider.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: f.config(attrs)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) config(attrs map[string]any) *config.Config {
	f.Helper()
	all := map[string]any{
		config.Name: "m", config.Type: lxd.Name, config.UUID: providertest.Model,
		lxd.ImageKey: "base", lxd.CloudInitKey: false,
	}
	for k, v := range attrs {
		all[k] = v
	}
	cfg, err := config.New(all)
	if err == nil {
		cfg, err = f.provider.Validate(cfg, nil)
	}
	if err != nil {
		f.Fatal(err)
	}
	return cfg
}

func (f *fixture) params(machine, demands string) environs.StartInstanceParams {
	f.Helper()
	p := providertest.Params(providertest.Site, providertest.Model, machine, base.Default())
	v, err := constraints.Parse(demands)
	if err != nil {
		f.Fatal(err)
	}
	p.Constraints = v
	return p
}

func (f *fixture) start(p environs.StartInstanceParams) environs.Instance {
	f.Helper()
	r, err := f.environ.StartInstance(f.Context(), p)
	if err != nil {
		f.Fatal(err)
	}
	return r.Instance
}

// container returns the only container of a server.
func (f *fixture) container(zone string) lxdtest.Container {
	f.Helper()
	all := f.servers[zone].Containers()
	if len(all) != 1 {
		f.Fatalf("zone %s has %d containers, want 1", zone, len(all))
	}
	for _, c := range all {
		return c
	}
	panic("unreachable")
}
