package environs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
)

const (
	modelUUID = "deadbeef-0bad-400d-8000-4b1d0d06f00d"
	siteUUID  = "5175e000-0bad-400d-8000-4b1d0d06f00d"
)

func TestClassOf(t *testing.T) {
	plain := errors.New("boom")
	for _, c := range []struct {
		name string
		err  error
		want environs.Class
	}{
		{"anything", plain, environs.Retryable},
		{"busy", errors.WithType(plain, environs.ErrBusy), environs.Retryable},
		{"time out", context.DeadlineExceeded, environs.Retryable},
		{"zone", errors.Annotate(errors.WithType(plain, environs.ErrZone), "cannot start"), environs.ZoneSpecific},
		{"permanent", errors.Annotate(errors.WithType(plain, environs.ErrPermanent), "cannot start"), environs.Permanent},
		{"permanent in a zone", errors.WithType(errors.WithType(plain, environs.ErrZone), environs.ErrPermanent), environs.Permanent},
		{"not valid", errors.NotValidf("x"), environs.Permanent},
		{"not supported", errors.NotSupportedf("x"), environs.Permanent},
	} {
		if got := environs.ClassOf(c.err); got != c.want {
			t.Errorf("ClassOf(%s) = %s, want %s", c.name, got, c.want)
		}
	}
	if !errors.Is(environs.ErrNoInstances, errors.NotFound) {
		t.Error("ErrNoInstances does not satisfy errors.NotFound")
	}
}

// in returns an instance in a zone; "" means in none.
func in(id instance.ID, zone string) environs.Instance {
	i := environs.Instance{ID: id}
	if zone != "" {
		i.Hardware = hardware.Characteristics{AvailabilityZone: &zone}
	}
	return i
}

func TestSpreadZones(t *testing.T) {
	zones := []environs.Zone{{"z3", true}, {"z1", true}, {"z2", true}, {"down", false}}
	instances := []environs.Instance{in("a", "z1"), in("b", "z1"), in("c", "z2"), in("d", "down"), in("e", "")}
	for _, c := range []struct {
		name      string
		instances []environs.Instance
		group     []instance.ID
		only      []string
		want      []string
	}{
		{name: "no instances", want: []string{"z1", "z2", "z3"}},
		{name: "all count without a group", instances: instances, want: []string{"z3", "z2", "z1"}},
		{name: "only the group counts", instances: instances, group: []instance.ID{"c"}, want: []string{"z1", "z3", "z2"}},
		{name: "a member that is gone", instances: instances, group: []instance.ID{"gone"}, want: []string{"z1", "z2", "z3"}},
		{name: "only some zones", instances: instances, only: []string{"z1", "z2", "down"}, want: []string{"z2", "z1"}},
		{name: "no zone will do", instances: instances, only: []string{}},
	} {
		got := environs.SpreadZones(zones, environs.Population(c.instances, c.group), c.only)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: SpreadZones = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOwnerAndTags(t *testing.T) {
	o := environs.Owner{ControllerUUID: siteUUID, ModelUUID: modelUUID, MachineID: "3/lxd/0"}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := environs.OwnerOf(o.Tags()); got != o {
		t.Errorf("OwnerOf(Tags()) = %+v, want %+v", got, o)
	}
	other := o
	other.MachineID = "4"
	if !o.SameModel(other) || o.SameModel(environs.Owner{ModelUUID: modelUUID, MachineID: "3/lxd/0"}) {
		t.Error("SameModel is wrong")
	}
	for _, bad := range []environs.Owner{
		{ModelUUID: modelUUID, MachineID: "0"}, {ControllerUUID: siteUUID, MachineID: "0"},
		{ControllerUUID: siteUUID, ModelUUID: modelUUID}, {ControllerUUID: siteUUID, ModelUUID: modelUUID, MachineID: "x"},
	} {
		if err := bad.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Validate(%+v) = %v, want NotValid", bad, err)
		}
	}
}

func params() environs.StartInstanceParams {
	return environs.StartInstanceParams{
		Owner: environs.Owner{ControllerUUID: siteUUID, ModelUUID: modelUUID, MachineID: "3"},
		InstanceConfig: &environs.InstanceConfig{
			MachineID: "3", Nonce: "hush-nonce", Password: "hush-password", APIAddresses: []string{"a:1"}, CACert: "ca",
			ModelUUID: modelUUID, ControllerUUID: siteUUID, Jobs: []job.Job{job.HostUnits},
		},
		Base: base.Default(),
	}
}

func TestParamsValidate(t *testing.T) {
	if err := params().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*environs.StartInstanceParams){
		"owner":           func(p *environs.StartInstanceParams) { p.Owner.ModelUUID = "" },
		"no config":       func(p *environs.StartInstanceParams) { p.InstanceConfig = nil },
		"machine":         func(p *environs.StartInstanceParams) { p.InstanceConfig.MachineID = "x" },
		"another machine": func(p *environs.StartInstanceParams) { p.InstanceConfig.MachineID = "4" },
		"another site":    func(p *environs.StartInstanceParams) { p.InstanceConfig.ControllerUUID = modelUUID },
		"nonce":           func(p *environs.StartInstanceParams) { p.InstanceConfig.Nonce = "" },
		"password":        func(p *environs.StartInstanceParams) { p.InstanceConfig.Password = "" },
		"addresses":       func(p *environs.StartInstanceParams) { p.InstanceConfig.APIAddresses = nil },
		"CA":              func(p *environs.StartInstanceParams) { p.InstanceConfig.CACert = "" },
		"model":           func(p *environs.StartInstanceParams) { p.InstanceConfig.ModelUUID = "x" },
		"site":            func(p *environs.StartInstanceParams) { p.InstanceConfig.ControllerUUID = "x" },
		"jobs":            func(p *environs.StartInstanceParams) { p.InstanceConfig.Jobs = nil },
		"base":            func(p *environs.StartInstanceParams) { p.Base = base.Base{} },
	} {
		p := params()
		spoil(&p)
		if err := p.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: Validate() = %v, want NotValid", name, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	p := params()
	for _, text := range []string{
		fmt.Sprint(p.InstanceConfig), fmt.Sprintf("%+v %#v", *p.InstanceConfig, p.InstanceConfig), fmt.Sprintf("%v %+v %#v", p, p, p),
	} {
		if strings.Contains(text, "hush") {
			t.Errorf("a secret is in %s", text)
		}
	}
	if got := fmt.Sprint(p.InstanceConfig); got != "[redacted] config of machine 3" {
		t.Errorf("prints as %q", got)
	}
}

func TestReport(t *testing.T) {
	p := params()
	p.Report(status.Allocating, "nobody asks")
	var got []status.Info
	p.Progress = func(i status.Info) { got = append(got, i) }
	p.Report(status.Allocating, "choosing a machine")
	if len(got) != 1 || got[0].Message != "choosing a machine" || got[0].Status != status.Allocating {
		t.Errorf("Progress was told %v", got)
	}
}

func TestConfigure(t *testing.T) {
	cfg, err := config.New(map[string]any{
		"name": "m", "type": "fake", "uuid": modelUUID, "authorized-keys": "k", "http-proxy": "http://p", "enable-os-upgrade": false,
	})
	if err != nil {
		t.Fatal(err)
	}
	var c environs.InstanceConfig
	c.Configure(cfg)
	if c.AuthorizedKeys != "k" || c.AptProxies.HTTP != "http://p" || c.EnableOSUpgrade || !c.EnableOSRefreshUpdate {
		t.Errorf("Configure gave %+v %+v", c.AptProxies, c.AuthorizedKeys)
	}
}

// fakeProvider opens nothing, and remembers what with.
type fakeProvider struct{ opened *config.Config }

func (p *fakeProvider) Open(_ context.Context, o environs.OpenParams) (environs.Environ, error) {
	p.opened = o.Config
	return nil, nil
}

func (p *fakeProvider) Validate(cfg, old *config.Config) (*config.Config, error) {
	return cfg.Coerce(p.Schema(), old)
}

func (p *fakeProvider) Schema() config.Schema {
	return config.Schema{{Name: "size", Kind: config.Int, Immutable: true, Default: 1}}
}

func TestRegistry(t *testing.T) {
	fake := &fakeProvider{}
	r := environs.NewRegistry(map[string]environs.Provider{"fake": fake, "another": nil})
	if got := r.Names(); !slices.Equal(got, []string{"another", "fake"}) {
		t.Errorf("Names() = %q", got)
	}
	if _, err := r.Provider("cheese"); !errors.Is(err, errors.NotFound) || err.Error() != `no registered provider for "cheese"` {
		t.Errorf("Provider(cheese) = %v", err)
	}
	model := func(typ string, size any) *config.Config {
		cfg, err := config.New(map[string]any{"name": "m", "type": typ, "uuid": modelUUID, "size": size})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if _, err := r.Validate(model("cheese", 1), nil); !errors.Is(err, errors.NotFound) {
		t.Errorf("Validate(cheese) = %v", err)
	}
	if _, err := r.Validate(model("fake", 2), model("fake", 1)); err == nil || err.Error() != "cannot change size from 1 to 2" {
		t.Errorf("Validate = %v", err)
	}
	if _, err := r.Validate(model("fake", 1), model("cheese", 1)); err == nil || !strings.Contains(err.Error(), "cannot change type") {
		t.Errorf("Validate = %v", err)
	}
	if _, err := r.Open(t.Context(), environs.OpenParams{Config: model("fake", "x")}); !errors.Is(err, errors.NotValid) {
		t.Errorf("Open = %v, want NotValid", err)
	}
	if _, err := r.Open(t.Context(), environs.OpenParams{Config: model("fake", "7")}); err != nil {
		t.Fatal(err)
	}
	if got := fake.opened.UnknownAttrs()["size"]; got != 7 {
		t.Errorf("opened with size %v (%T), want 7", got, got)
	}
}
