package lxd_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/internal/golden"
)

// describe prints a container as the goldens have it.
func describe(c lxdtest.Container) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s image=%s profiles=%v\n", c.Name, c.Status, c.Alias, c.Profiles)
	for _, k := range slices.Sorted(maps.Keys(c.Config)) {
		fmt.Fprintf(&out, "config %s: %s\n", k, c.Config[k])
	}
	for _, d := range slices.Sorted(maps.Keys(c.Devices)) {
		for _, k := range slices.Sorted(maps.Keys(c.Devices[d])) {
			fmt.Fprintf(&out, "device %s %s: %s\n", d, k, c.Devices[d][k])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(&out, "%s %s %s\n", c.Files[path].Kind, c.Files[path].Mode, path)
	}
	return out.String()
}

func TestContainerIsAsApproved(t *testing.T) {
	for name, attrs := range map[string]map[string]any{
		"static.golden":    nil,
		"cloudinit.golden": {lxd.CloudInitKey: true, lxd.ImageKey: "{name}/{channel}", lxd.NestingKey: true, "http-proxy": "http://proxy:3128"},
	} {
		f := newFixture(t, attrs, "a")
		p := f.params("3", "cores=2 mem=2G root-disk=10G")
		p.Tags = map[string]string{"color": "red"}
		p.InstanceConfig.APIAddresses = []string{"127.0.0.1:4711", "[::1]:4712"}
		p.InstanceConfig.Configure(f.config(attrs))
		f.start(p)
		golden.Check(t, name, describe(f.container("a")))
	}
}

// What an unprivileged process in the container can read holds no password.
func TestConfigurationHoldsNoPassword(t *testing.T) {
	f := newFixture(t, map[string]any{lxd.CloudInitKey: true}, "a")
	p := f.params("0", "")
	f.start(p)
	c := f.container("a")
	for k, v := range c.Config {
		if strings.Contains(v, p.InstanceConfig.Password) {
			t.Errorf("the password is in %s", k)
		}
	}
	agent := c.Files["/var/lib/slipway/agent.yaml"]
	if agent.Mode != "0600" || !strings.Contains(agent.Content, p.InstanceConfig.Password) || !strings.Contains(agent.Content, "127.0.0.1:17070") {
		t.Errorf("agent file = %+v", agent)
	}
	if got := c.Files["/var/lib/slipway/agent/current/provisionerd"]; got.Mode != "0755" || got.Content != "static agent" {
		t.Errorf("agent = %+v", got)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	name := ""
	for step, c := range map[string]struct {
		call string // its beginning
		fail lxdtest.Failure
		want environs.Class
		text string
	}{
		"no image":            {"POST /1.0/instances", lxdtest.Failure{Code: 404, Text: "Image alias not found"}, environs.Permanent, `LXD server a has no image "base"`},
		"refused":             {"POST /1.0/instances", lxdtest.Failure{Code: 400, Text: "Invalid config"}, environs.Permanent, "Invalid config"},
		"not trusted":         {"POST /1.0/instances", lxdtest.Failure{Code: 403, Text: "not authorized"}, environs.ZoneSpecific, "not authorized"},
		"creation fails":      {"POST /1.0/instances", lxdtest.Failure{Text: "Failed creating", Done: true}, environs.Retryable, "Failed creating"},
		"no space":            {"POST /1.0/instances", lxdtest.Failure{Text: "write /x: no space left on device", Done: true}, environs.ZoneSpecific, "there is no room for the container: make some in its storage pool, or have lxd-profiles name another: write /x: no space left"},
		"no room to unpack":   {"POST /1.0/instances", lxdtest.Failure{Text: "Unable to unpack image, run out of disk space", Done: true}, environs.ZoneSpecific, "there is no room"},
		"no memory":           {"PUT /1.0/instances/", lxdtest.Failure{Text: "fork: Cannot allocate memory"}, environs.ZoneSpecific, "LXD server a: fork: Cannot"},
		"answer lost":         {"POST /1.0/instances", lxdtest.Failure{Cut: true, Done: true}, environs.ZoneSpecific, "does not answer"},
		"disk not writable":   {"POST /1.0/instances/", lxdtest.Failure{Code: 500, Text: "read-only"}, environs.Retryable, "read-only"},
		"start fails":         {"PUT /1.0/instances/", lxdtest.Failure{Text: "exit status 1"}, environs.Retryable, "exit status 1"},
		"start's answer lost": {"PUT /1.0/instances/", lxdtest.Failure{Cut: true, Done: true}, environs.ZoneSpecific, "does not answer"},
		"server says busy":    {"GET /1.0/resources", lxdtest.Failure{Code: 503, Text: "starting"}, environs.ZoneSpecific, "starting"},
	} {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t, nil, "a")
			first := true
			f.servers["a"].Fail(func(call string) *lxdtest.Failure {
				if !first || !strings.HasPrefix(call, c.call) {
					return nil
				}
				first = strings.HasPrefix(call, "GET ") // what is only asked, is asked again
				return &c.fail
			})
			_, err := f.environ.StartInstance(t.Context(), f.params("0", ""))
			if err == nil || environs.ClassOf(err) != c.want || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("StartInstance = %v (%v), want a %v error with %q", err, environs.ClassOf(err), c.want, c.text)
			}
			if got := f.servers["a"].Containers(); len(got) != 0 {
				t.Errorf("%d containers are left", len(got))
			}
			f.servers["a"].Fail(nil)
			if i := f.start(f.params("0", "")); name != "" && string(i.ID) != name {
				t.Errorf("the container is called %s, then %s", name, i.ID)
			} else {
				name = string(i.ID)
			}
		})
	}
}

func TestStartThatWasCutOffIsFinished(t *testing.T) {
	f := newFixture(t, nil, "a")
	p := f.params("0", "")
	id := f.start(p).ID
	c := f.container("a")
	delete(c.Config, "volatile.last_state.power")
	c.Status, c.Files = "Stopped", map[string]lxdtest.File{"/": {Kind: "directory"}}
	f.servers["a"].Put(c)
	if got, err := f.environ.AllInstances(t.Context()); err != nil || len(got) != 1 || got[0].Status != status.Stopped {
		t.Errorf("AllInstances = %+v, %v, want the container, stopped", got, err)
	}
	r, err := f.environ.StartInstance(t.Context(), p)
	if err != nil || !r.Existed || r.Instance.ID != id || r.Instance.Status != status.Running {
		t.Errorf("StartInstance = %+v, %v", r, err)
	}
	if _, ok := f.container("a").Files["/var/lib/slipway/agent.yaml"]; !ok {
		t.Error("the agent file is missing")
	}
}

func TestContainerStoppedBySomebodyStaysSo(t *testing.T) {
	f := newFixture(t, nil, "a")
	p := f.params("0", "")
	f.start(p)
	c := f.container("a")
	c.Status, c.Config["volatile.last_state.power"] = "Stopped", "STOPPED"
	f.servers["a"].Put(c)
	r, err := f.environ.StartInstance(t.Context(), p)
	if err != nil || !r.Existed || r.Instance.Status != status.Stopped || r.Instance.Message == "" {
		t.Errorf("StartInstance = %+v, %v, want the stopped container", r, err)
	}
}

func TestContainersOfOthersAreLeftAlone(t *testing.T) {
	f := newFixture(t, nil, "a")
	id := f.start(f.params("0", "")).ID
	stranger := f.container("a")
	stranger.Config = map[string]string{"user.juju-model-uuid": "another"}
	f.servers["a"].Put(stranger)
	if _, err := f.environ.StartInstance(t.Context(), f.params("0", "")); err == nil || environs.ClassOf(err) != environs.Permanent {
		t.Errorf("StartInstance beside a stranger's container = %v, want a permanent error", err)
	}
	if results, err := f.environ.StopInstances(t.Context(), []instance.ID{id}); err != nil || results[0] != nil {
		t.Errorf("StopInstances = %v, %v", results, err)
	}
	f.container("a")
}

func TestMachinesAreSpread(t *testing.T) {
	f := newFixture(t, nil, "a", "b", "c")
	for i := range 6 {
		f.start(f.params(fmt.Sprint(i), ""))
	}
	for zone, s := range f.servers {
		if got := len(s.Containers()); got != 2 {
			t.Errorf("zone %s has %d containers, want 2", zone, got)
		}
	}
	p := f.params("6", "")
	p.Placement = "zone=b"
	if i := f.start(p); i.Zone() != "b" {
		t.Errorf("machine 6 is in zone %q, want b", i.Zone())
	}
	p = f.params("7", "")
	p.SubnetsToZones = map[string][]string{"net": {"c", "elsewhere"}}
	if i := f.start(p); i.Zone() != "c" {
		t.Errorf("machine 7 is in zone %q, want c", i.Zone())
	}
	zones, err := f.environ.(environs.Zoned).AvailabilityZones(t.Context())
	if err != nil || len(zones) != 3 || !zones[0].Available {
		t.Errorf("AvailabilityZones = %v, %v", zones, err)
	}
}

func TestFullServerIsPassedOver(t *testing.T) {
	f := newFixture(t, nil, "a", "b")
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if call == "POST /1.0/instances" {
			return &lxdtest.Failure{Text: "No space left on device"}
		}
		return nil
	})
	if i := f.start(f.params("0", "")); i.Zone() != "b" {
		t.Errorf("machine 0 is in zone %q, want b", i.Zone())
	}
}

// Without one server's answer nothing is known to be gone, and no second
// container is made.
func TestSilentServerHoldsBackWhatItMayKnow(t *testing.T) {
	f := newFixture(t, nil, "a", "b")
	id := f.start(f.params("0", "")).ID
	f.servers["b"].Fail(func(string) *lxdtest.Failure { return &lxdtest.Failure{Cut: true} })
	if _, err := f.environ.AllInstances(t.Context()); !errors.Is(err, environs.ErrBusy) || !strings.Contains(err.Error(), "LXD server b") {
		t.Errorf("AllInstances = %v, want busy because of server b", err)
	}
	if _, err := f.environ.StartInstance(t.Context(), f.params("1", "")); err == nil {
		t.Error("StartInstance succeeded although the machine may be on the silent server")
	}
	results, err := f.environ.StopInstances(t.Context(), []instance.ID{id, "unknown"})
	if err != nil || results[0] != nil || results[1] == nil {
		t.Errorf("StopInstances = %v, %v, want success and then an error", results, err)
	}
	zones, _ := f.environ.(environs.Zoned).AvailabilityZones(t.Context())
	if !zones[0].Available || zones[1].Available {
		t.Errorf("AvailabilityZones = %v, want b unavailable", zones)
	}
}

func TestOneStopFailsByItself(t *testing.T) {
	f := newFixture(t, nil, "a")
	bad, good := f.start(f.params("0", "")).ID, f.start(f.params("1", "")).ID
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if call == "DELETE /1.0/instances/"+string(bad) {
			return &lxdtest.Failure{Code: http.StatusInternalServerError, Text: "device busy"}
		}
		return nil
	})
	results, err := f.environ.StopInstances(t.Context(), []instance.ID{bad, good, good})
	if err != nil || results[0] == nil || !strings.Contains(results[0].Error(), "device busy") || results[1] != nil || results[2] != nil {
		t.Errorf("StopInstances = %v, %v", results, err)
	}
}

func TestCancelledStartCleansUp(t *testing.T) {
	f := newFixture(t, nil, "a")
	ctx, cancel := context.WithCancel(t.Context())
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if strings.HasPrefix(call, "PUT ") {
			cancel()
		}
		return nil
	})
	if _, err := f.environ.StartInstance(ctx, f.params("0", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("StartInstance = %v, want the context's error", err)
	}
	f.servers["a"].Fail(nil)
	if got := f.servers["a"].Containers(); len(got) != 0 {
		t.Errorf("%d containers are left", len(got))
	}
}

func TestProgressIsReported(t *testing.T) {
	f := newFixture(t, nil, "a")
	var got []string
	p := f.params("0", "")
	p.Progress = func(i status.Info) { got = append(got, string(i.Status)+": "+i.Message) }
	f.start(p)
	want := []string{"provisioning: creating container on a", "provisioning: writing the agent's files", "provisioning: starting container"}
	if !slices.Equal(got, want) {
		t.Errorf("progress = %q, want %q", got, want)
	}
}

func TestInstancesHaveAddressesAndHardware(t *testing.T) {
	f := newFixture(t, nil, "a")
	p := f.params("0", "cores=2 mem=1G")
	started := f.start(p)
	if got := started.Hardware.String(); got != "arch=amd64 cores=2 mem=1024M availability-zone=a" {
		t.Errorf("hardware = %s", got)
	}
	got, err := f.environ.Instances(t.Context(), []instance.ID{started.ID})
	if err != nil || len(got[0].Addresses) != 1 || got[0].Addresses[0].Value != "10.9.8.7" {
		t.Errorf("Instances = %+v, %v, want the address 10.9.8.7", got, err)
	}
}

// A container downloads its agent by the way that it reaches the API.
func TestDownloadsGoTheContainersWay(t *testing.T) {
	f := newFixture(t, map[string]any{lxd.CloudInitKey: true}, "a")
	// A worker without a static agent.
	provider := lxd.New(lxd.Options{Hosts: map[string]string{"a": f.servers["a"].Address}})
	environ, err := provider.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: f.config(map[string]any{lxd.CloudInitKey: true})})
	if err != nil {
		t.Fatal(err)
	}
	p := f.params("0", "")
	if _, err := environ.StartInstance(t.Context(), p); err == nil || environs.ClassOf(err) != environs.Permanent {
		t.Errorf("StartInstance without any agent = %v, want a permanent error", err)
	}
	p.InstanceConfig.APIAddresses = []string{"127.0.0.1:4711", "[::1]:4712"}
	for _, host := range []string{"127.0.0.1:4711", "[::1]:4712"} {
		p.InstanceConfig.AgentBinaries = append(p.InstanceConfig.AgentBinaries, environs.AgentBinary{
			Version: binaries.Version{Number: binaries.Number{Major: 2}, Series: "noble", Arch: "amd64"},
			URL:     "https://" + host + "/tools/2.0.0-noble-amd64", SHA256: strings.Repeat("ab", 32), Size: 1,
		})
	}
	if _, err := environ.StartInstance(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	sources := f.container("a").Config["cloud-init.user-data"]
	for _, want := range []string{`"port": "17070"`, `"port": "17071"`} {
		if !strings.Contains(sources, want) || strings.Contains(sources, "471") {
			t.Errorf("the installer is told %s, want %s in it and no port from outside", sources, want)
		}
	}
}

func TestBridgeTakesReachableAddressesOnly(t *testing.T) {
	f := newFixture(t, map[string]any{lxd.BridgeKey: true}, "a")
	p := f.params("0", "")
	if _, err := f.environ.StartInstance(t.Context(), p); err == nil || !strings.Contains(err.Error(), lxd.BridgeKey) {
		t.Errorf("StartInstance with loopback addresses alone = %v", err)
	}
	p.InstanceConfig.APIAddresses = []string{"127.0.0.1:1", "10.0.0.1:17070"}
	f.start(p)
	c := f.container("a")
	if agent := c.Files["/var/lib/slipway/agent.yaml"].Content; len(c.Devices) != 0 || !strings.Contains(agent, "10.0.0.1:17070") || strings.Contains(agent, "127.0.0.1") {
		t.Errorf("devices %v, agent file without the bridge's address", c.Devices)
	}
}
