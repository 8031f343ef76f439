package provisioner_test

import (
	"context"
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

const (
	missing = `{"error":{"message":"machine 42 not found","code":"not found"}}`
	errs    = `{"results":[{},` + missing + `]}`
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Provisioner.Life":           `{"results":[{"life":"dying"},{"life":"","error":{"message":"machine 42 not found","code":"not found"}}]}`,
		"Provisioner.InstanceId":     `{"results":[{"result":"i-1"},{"error":{"message":"machine 42 not provisioned","code":"not provisioned"},"result":""}]}`,
		"Provisioner.Series":         `{"results":[{"result":"jammy"}]}`,
		"Provisioner.Status":         `{"results":[{"id":"","life":"","status":"error","info":"boom","data":{"transient":true},"since":"2026-01-02T03:04:05.000000006Z"}]}`,
		"Provisioner.InstanceStatus": `{"results":[{"id":"","life":"","status":"running","info":"","data":{},"since":null}]}`,
		"Provisioner.SetStatus":      errs, "Provisioner.SetInstanceStatus": errs, "Provisioner.UpdateStatus": errs,
		"Provisioner.EnsureDead": errs, "Provisioner.Remove": errs, "Provisioner.MarkMachinesForRemoval": errs,
		"Provisioner.SetPasswords": errs, "Provisioner.SetInstanceInfo": errs, "Provisioner.ReleaseContainerAddresses": errs,
		"Provisioner.MachinesWithTransientErrors": `{"results":[{"id":"1","life":"alive","status":"error","info":"x","data":{"transient":true},"since":null}]}`,
		"Provisioner.Constraints":                 `{"results":[{"constraints":{"cores":2}}]}`,
		"Provisioner.DistributionGroup":           `{"results":[{"result":["i-1"]},{"error":{"message":"permission denied","code":"unauthorized access"},"result":null}]}`,
		"Provisioner.ProvisioningInfo":            `{"results":[{"result":{"constraints":{},"series":"jammy","placement":"","jobs":["JobHostUnits"]}},{"result":null}]}`,
		"Provisioner.FindTools":                   `{"list":[{"version":"2.0.0-jammy-amd64","url":"https://h/t","size":3}]}`,
		"Provisioner.APIHostPorts":                `{"servers":[[{"value":"10.0.0.1","type":"ipv4","scope":"local-cloud","port":17070}]]}`,
		"Provisioner.APIAddresses":                `{"result":["10.0.0.1:17070"]}`,
		"Provisioner.CACert":                      `{"result":"UEVN"}`,
		"Provisioner.ModelUUID":                   `{"result":"uuid"}`,
		"Provisioner.ModelConfig":                 `{"config":{"name":"m"}}`,
		"Provisioner.ControllerConfig":            `{"config":{"api-port":17070}}`,
	}}
	c, ctx := provisioner.New(tr), t.Context()
	note := func(value any, err error) { tr.Note("%v, %v", value, err) }

	life, err := c.Life(ctx, "0", "42")
	note(life, err)
	if !errors.Is(life[1].Err, errors.NotFound) {
		t.Errorf("error of a missing machine = %v, want NotFound", life[1].Err)
	}
	inst, err := c.InstanceID(ctx, "0", "42")
	note(inst, err)
	if !errors.Is(inst[1].Err, errors.NotProvisioned) {
		t.Errorf("error of an unprovisioned machine = %v, want NotProvisioned", inst[1].Err)
	}
	series, err := c.Series(ctx, "0/lxd/1")
	note(series, err)
	infos, err := c.Status(ctx, "0")
	note(infos, err)
	infos, err = c.InstanceStatus(ctx, "0")
	note(infos, err)
	set := []provisioner.NewStatus{{ID: "0", Status: status.Pending, Message: "soon"}, {ID: "42", Status: status.Error, Data: map[string]any{"transient": true}}}
	es, err := c.SetStatus(ctx, set...)
	note(es, err)
	es, err = c.SetInstanceStatus(ctx, set...)
	note(es, err)
	es, err = c.UpdateStatus(ctx, set...)
	note(es, err)
	transient, err := c.MachinesWithTransientErrors(ctx)
	note(transient, err)
	for _, change := range []func(context.Context, ...string) ([]error, error){c.EnsureDead, c.Remove, c.MarkForRemoval, c.ReleaseContainerAddresses} {
		es, err = change(ctx, "0", "42")
		note(es, err)
	}
	es, err = c.SetPasswords(ctx, provisioner.Password{ID: "0", Password: "p0"}, provisioner.Password{ID: "42", Password: "p42"})
	note(es, err)
	cores := uint64(4)
	es, err = c.SetInstanceInfo(ctx,
		provisioner.Instance{MachineID: "0", ID: "i-0", Nonce: "n", Hardware: &hardware.Characteristics{CPUCores: &cores},
			Network: []params.NetworkConfig{{InterfaceName: "eth0", Address: "10.0.0.2"}}},
		provisioner.Instance{MachineID: "42", ID: "i-42", Nonce: "n"})
	note(es, err)
	cons, err := c.Constraints(ctx, "0")
	note(*cons[0].Value.Cores, err)
	groups, err := c.DistributionGroup(ctx, "0", "42")
	note(groups, err)
	prov, err := c.ProvisioningInfo(ctx, "0", "42")
	tr.Note("%v, %v, %v", prov[0].Value.Series, prov[1].Err, err)
	tools, err := c.FindTools(ctx, params.FindToolsParams{Number: "2.0.0", Major: -1, Minor: -1})
	note(tools, err)
	hps, err := c.APIHostPorts(ctx)
	note(hps, err)
	addrs, err := c.APIAddresses(ctx)
	note(addrs, err)
	ca, err := c.CACert(ctx)
	note(ca, err)
	uuid, err := c.ModelUUID(ctx)
	note(uuid, err)
	config, err := c.ModelConfig(ctx)
	note(config, err)
	config, err = c.ControllerConfig(ctx)
	note(config, err)
	golden.Check(t, "transcript.golden", tr.String())
}

func TestContainersOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Provisioner.SetSupportedContainers":        `{"results":[{}]}`,
		"Provisioner.ContainerManagerConfig":        `{"config":{"model-uuid":"m"}}`,
		"Provisioner.ContainerConfig":               `{"provider-type":"simulated","proxy":{"Http":"h"},"enable-os-upgrade":true}`,
		"Provisioner.PrepareContainerInterfaceInfo": `{"results":[{"info":[{"interface-name":"eth0"}]}]}`,
		"Provisioner.GetContainerInterfaceInfo":     `!not supported: networking not supported`,
	}}
	c, ctx := provisioner.New(tr), t.Context()
	tr.Note("%v", c.SetSupportedContainers(ctx, "0", "lxd"))
	manager, err := c.ContainerManagerConfig(ctx, "lxd")
	tr.Note("%v, %v", manager, err)
	config, err := c.ContainerConfig(ctx)
	tr.Note("%v %v %v, %v", config.ProviderType, config.Proxy.HTTP, config.EnableOSUpgrade, err)
	info, err := c.PrepareContainerInterfaceInfo(ctx, "0/lxd/0")
	tr.Note("%v, %v", info[0].Value[0].InterfaceName, err)
	_, err = c.GetContainerInterfaceInfo(ctx, "0/lxd/0")
	tr.Note("%v", err)
	if !errors.Is(err, errors.NotSupported) {
		t.Errorf("GetContainerInterfaceInfo = %v, want NotSupported", err)
	}
	golden.Check(t, "containers.golden", tr.String())
}

// A server would take any type, and then never tell of anything.
//
// Cases: client/RefusedContainerTypes
func TestContainersOfWhatIsNoType(t *testing.T) {
	tr := &apitest.Transcript{}
	c := provisioner.New(tr)
	for containerType, want := range map[string]string{"none": `unsupported container type "none"`, "": "container type must be specified"} {
		if _, err := c.WatchContainers(t.Context(), "0", containerType); !errors.Is(err, errors.NotValid) || err.Error() != want {
			t.Errorf("WatchContainers of type %q = %v, want NotValid %q", containerType, err, want)
		}
	}
	if tr.String() != "" {
		t.Errorf("the server was asked:\n%s", tr)
	}
}

func TestNothingToDoAsksNothing(t *testing.T) {
	tr := &apitest.Transcript{}
	c, ctx := provisioner.New(tr), t.Context()
	for name, call := range map[string]func() ([]error, error){
		"SetStatus":       func() ([]error, error) { return c.SetStatus(ctx) },
		"SetPasswords":    func() ([]error, error) { return c.SetPasswords(ctx) },
		"SetInstanceInfo": func() ([]error, error) { return c.SetInstanceInfo(ctx) },
		"EnsureDead":      func() ([]error, error) { return c.EnsureDead(ctx) },
	} {
		if errs, err := call(); errs != nil || err != nil {
			t.Errorf("%s of nothing = %v, %v, want nil", name, errs, err)
		}
	}
	if tr.String() != "" {
		t.Errorf("calls were made:\n%s", tr)
	}
}

func TestWatchersBeginWithTheResult(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Provisioner.WatchModelMachines":         `{"watcher-id":"2","changes":["0","1"]}`,
		"Provisioner.WatchContainers":            `{"results":[{"watcher-id":"3","changes":["0/lxd/0"]}]}`,
		"Provisioner.WatchAllContainers":         `{"results":[{"watcher-id":"4"}]}`,
		"Provisioner.WatchMachineErrorRetry":     `{"NotifyWatcherId":"5"}`,
		"Provisioner.WatchForModelConfigChanges": `{"NotifyWatcherId":"6"}`,
		"Provisioner.WatchAPIHostPorts":          `{"NotifyWatcherId":"7"}`,
	}}
	c, ctx := provisioner.New(tr), t.Context()
	strings := func(w watcher.StringsWatcher, err error) func(want ...string) {
		return func(want ...string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if got := <-w.Changes(); !slices.Equal(got, want) {
				t.Errorf("first event = %v, want %v", got, want)
			}
			w.Kill()
			if err := w.Wait(); err != nil {
				t.Errorf("Wait = %v, want nil", err)
			}
		}
	}
	strings(c.WatchModelMachines(ctx))("0", "1")
	strings(c.WatchContainers(ctx, "0", "lxd"))("0/lxd/0")
	strings(c.WatchAllContainers(ctx, "0"))()
	for _, watch := range []func(context.Context) (watcher.NotifyWatcher, error){c.WatchMachineErrorRetry, c.WatchModelConfig, c.WatchAPIHostPorts} {
		w, err := watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-w.Changes()
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait = %v, want nil", err)
		}
	}
	golden.Check(t, "watchers.golden", tr.String())
	refused := &apitest.Transcript{Replies: map[string]string{
		"Provisioner.WatchModelMachines": "!unauthorized access: permission denied",
		"Provisioner.WatchContainers":    `{"results":[` + missing + `]}`,
	}}
	c = provisioner.New(refused)
	if _, err := c.WatchModelMachines(ctx); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("WatchModelMachines = %v, want Unauthorized", err)
	}
	if _, err := c.WatchContainers(ctx, "42", "lxd"); !errors.Is(err, errors.NotFound) {
		t.Errorf("WatchContainers = %v, want NotFound", err)
	}
}
