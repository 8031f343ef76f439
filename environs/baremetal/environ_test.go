package baremetal_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	corestatus "github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/baremetal"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/params"
)

// good are settings with which machines can be started.
func good() map[string]any {
	return map[string]any{
		baremetal.ImageKey: "https://images.example.com/{name}/{channel}/{series}/{arch}.qcow2", baremetal.HasAgentKey: true,
		baremetal.ChecksumKey: "https://images.example.com/{series}/SHA256SUMS", baremetal.FormatKey: "qcow2", baremetal.NetworkDataKey: "version: 2",
	}
}

func provider(s *site) baremetal.Provider {
	return baremetal.Provider{Hosts: func(o environs.OpenParams) environs.HostPool {
		return pool{s, o.ControllerUUID + " " + o.Config.UUID()}
	}}
}

func TestConformance(t *testing.T) {
	providertest.RunConformance(t, providertest.Config{
		New:          func(*testing.T) (environs.Provider, map[string]any) { return provider(newSite(10)), good() },
		Type:         baremetal.Name,
		BadPlacement: "shelf=3",
	})
}

// open returns an environ of the suite's model.
func open(t *testing.T, p environs.Provider, change map[string]any) environs.Environ {
	t.Helper()
	attrs := good()
	for k, v := range change {
		attrs[k] = v
	}
	for k, v := range map[string]any{config.Name: "m", config.Type: baremetal.Name, config.UUID: providertest.Model} {
		attrs[k] = v
	}
	cfg, err := config.New(attrs)
	if err == nil {
		cfg, err = p.Validate(cfg, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func start(machine string) environs.StartInstanceParams {
	return providertest.Params(providertest.Site, providertest.Model, machine, base.Default())
}

func TestWhatTheControllerIsAskedFor(t *testing.T) {
	s := newSite(3)
	e := open(t, provider(s), nil)
	p := start("0")
	p.SubnetsToZones = map[string][]string{"s": {"z1"}}
	p.DistributionGroup = func(context.Context) ([]instance.ID, error) { return []instance.ID{"host-9"}, nil }
	r, err := e.StartInstance(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if i := r.Instance; i.ID != "host-0" || i.Status != corestatus.Allocating || i.Message != "host host-0: chosen" || i.Zone() != "z1" ||
		*i.Hardware.Mem != 2048 || *i.Hardware.CPUCores != 8 || *i.Hardware.Arch != "amd64" || *i.Hardware.RootDisk != 100<<10 {
		t.Errorf("instance = %+v", i)
	}
	ask := s.consumed["host-0"].ask
	series, err := base.Default().Series()
	if err != nil {
		t.Fatal(err)
	}
	var image metal3v1alpha1.Image
	if err := json.Unmarshal(ask.Image, &image); err != nil {
		t.Fatal(err)
	}
	want := "https://images.example.com/" + base.Default().Name + "/" + base.Default().Channel + "/" + series + "/amd64.qcow2"
	if image.URL != want || image.Checksum != "https://images.example.com/"+series+"/SHA256SUMS" || image.ChecksumType != "sha256" || *image.DiskFormat != "qcow2" {
		t.Errorf("image = %+v, want %s", image, want)
	}
	if !strings.HasPrefix(string(ask.Data.UserData), "#cloud-config\n") || !strings.Contains(string(ask.Data.UserData), "hush-") || ask.Data.NetworkData != "version: 2" {
		t.Errorf("user data of %d bytes, network data %s", len(ask.Data.UserData), string(ask.Data.NetworkData))
	}
	if len(ask.Zones) != 1 || ask.Zones[0] != "z1" || len(ask.Apart) != 1 || ask.Apart[0] != "host-9" || *ask.Constraints.Arch != "amd64" {
		t.Errorf("request = %+v", ask)
	}
	for placement, check := range map[string]func(params.AllocateHost) bool{
		"host=host-1": func(a params.AllocateHost) bool { return a.Host == "host-1" && a.Zones == nil },
		"zone=z2":     func(a params.AllocateHost) bool { return len(a.Zones) == 1 && a.Zones[0] == "z2" },
	} {
		p := start("7")
		p.Placement = placement
		r, err := e.StartInstance(t.Context(), p)
		if err != nil || !check(s.consumed[string(r.Instance.ID)].ask) {
			t.Errorf("%s: %+v, %v", placement, s.consumed[string(r.Instance.ID)].ask, err)
		}
		if _, err := e.StopInstances(t.Context(), []instance.ID{r.Instance.ID}); err != nil {
			t.Error(err)
		}
	}
}

func TestStartsThatAreRefused(t *testing.T) {
	s := newSite(1)
	for want, change := range map[string]map[string]any{
		"set baremetal-image":  {baremetal.ImageKey: ""},
		"no package of agents": {baremetal.HasAgentKey: false},
	} {
		e := open(t, provider(s), change)
		_, err := e.StartInstance(t.Context(), start("0"))
		if err == nil || environs.ClassOf(err) != environs.Permanent {
			t.Errorf("%s: StartInstance = %v, want a permanent error", want, err)
		}
	}
	e := open(t, provider(newSite(0)), nil)
	if _, err := e.StartInstance(t.Context(), start("0")); err == nil || environs.ClassOf(err) != environs.Retryable || !strings.Contains(err.Error(), "no host matches") {
		t.Errorf("StartInstance without hosts = %v, want one worth another try", err)
	}
	// A controller knows no hosts, and judges the request alone.
	e = open(t, baremetal.Provider{}, nil)
	if err := e.Precheck(t.Context(), environs.PrecheckParams{Base: base.Default(), Placement: "host=a"}); err != nil {
		t.Errorf("Precheck = %v", err)
	}
	if _, err := e.StartInstance(t.Context(), start("0")); !errors.Is(err, errors.NotSupported) {
		t.Errorf("StartInstance without a pool = %v", err)
	}
	if _, err := e.(environs.Zoned).AvailabilityZones(t.Context()); !errors.Is(err, errors.NotSupported) {
		t.Errorf("AvailabilityZones without a pool = %v", err)
	}
}

func TestBadSettings(t *testing.T) {
	for key, value := range map[string]any{
		baremetal.ImageKey: "ftp://x/y", baremetal.ChecksumKey: "{what}", baremetal.ChecksumTypeKey: "crc", baremetal.FormatKey: "tape",
	} {
		attrs := map[string]any{config.Name: "m", config.Type: baremetal.Name, config.UUID: providertest.Model, key: value}
		cfg, err := config.New(attrs)
		if err == nil {
			_, err = baremetal.Provider{}.Validate(cfg, nil)
		}
		if !errors.Is(err, errors.NotValid) {
			t.Errorf("%s=%v: %v, want NotValid", key, value, err)
		}
	}
}

func TestZonesAndConstraints(t *testing.T) {
	e := open(t, provider(newSite(1)), nil)
	zones, err := e.(environs.Zoned).AvailabilityZones(t.Context())
	if err != nil || len(zones) != 2 || !zones[0].Available || zones[1].Available {
		t.Errorf("zones = %v, %v", zones, err)
	}
	v, err := e.ConstraintsValidator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := constraints.Parse("instance-type=m1 mem=1G")
	if err != nil {
		t.Fatal(err)
	}
	if unsupported, err := v.Validate(c); err != nil || len(unsupported) != 1 {
		t.Errorf("unsupported are %q, %v", unsupported, err)
	}
}

// What people see of a host on its way.
func TestFollow(t *testing.T) {
	s := newSite(1)
	e := open(t, provider(s), nil)
	if _, err := e.StartInstance(t.Context(), start("0")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan []environs.Instance)
	ended := make(chan error, 1)
	go func() {
		ended <- e.(environs.Follower).Follow(ctx, func(is []environs.Instance) { told <- is })
	}()
	next := func(want corestatus.Status, message string) {
		t.Helper()
		select {
		case is := <-told:
			if len(is) != 1 || is[0].Status != want || is[0].Message != message || is[0].Owner.MachineID != "0" {
				t.Errorf("told %+v, want %s %q", is, want, message)
			}
		case <-time.After(time.Minute):
			t.Fatalf("not told of %s %q", want, message)
		}
	}
	next(corestatus.Allocating, "host host-0: chosen")
	const provisioning = metal3v1alpha1.StateProvisioning
	s.set("host-0", status(provisioning), params.HostProgress{Owner: "queue", Place: 3, Reason: "a place"})
	next(corestatus.Allocating, "host host-0: queued at position 3")
	s.set("host-0", status(provisioning), params.HostProgress{Owner: "host manager", Reason: "the image to be written"})
	next(corestatus.Allocating, "host host-0: provisioning: waiting for the image to be written")
	s.set("host-0", status(provisioning), params.HostProgress{})
	next(corestatus.Allocating, "host host-0: provisioning")
	failed := status(provisioning)
	failed.ErrorType, failed.ErrorMessage = metal3v1alpha1.ProvisioningError, "cannot fetch\nthe image"
	s.set("host-0", failed, params.HostProgress{NextTry: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	next(corestatus.Allocating, "host host-0: provisioning error: cannot fetch the image; next try at 03:04:05Z")
	s.set("host-0", failed, params.HostProgress{Owner: "operator", Reason: "x"})
	next(corestatus.ProvisioningError, "host host-0: provisioning error: cannot fetch the image")
	s.set("host-0", status(metal3v1alpha1.StateReady), params.HostProgress{Owner: "operator", Reason: "in maintenance"})
	next(corestatus.ProvisioningError, "host host-0: in maintenance")
	s.set("host-0", status(metal3v1alpha1.StateProvisioned), params.HostProgress{})
	next(corestatus.Running, "host host-0 is switched off")
	on := status(metal3v1alpha1.StateProvisioned)
	on.PoweredOn = true
	s.set("host-0", on, params.HostProgress{})
	next(corestatus.Running, "")
	s.vanish("host-0")
	next(corestatus.Error, "host host-0 is not this machine's any more")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v", err)
	}
	s.fail(errors.New("boom"))
	if err := e.(environs.Follower).Follow(t.Context(), func([]environs.Instance) {}); err == nil {
		t.Error("Follow goes on though it cannot")
	}
}
