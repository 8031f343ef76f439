package ironic_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/provisionertest"
)

var good = bmc.Credentials{Username: "root", Password: password}

// config returns a Config for the fake, with short waits.
func (f *fakeIronic) config() ironic.Config {
	return ironic.Config{Endpoint: f.server.URL + "/v1", Poll: time.Millisecond, InspectPoll: time.Millisecond, BusyPoll: time.Millisecond, RequestTimeout: 10 * time.Second}
}

// open returns a back end on the fake.
func (f *fakeIronic) open() *ironic.Backend {
	f.t.Helper()
	b, err := ironic.New(f.config())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(b.Close)
	return b
}

// host returns the record of host n.
func host(n int) *metal3v1alpha1.BareMetalHost {
	h := new(metal3v1alpha1.BareMetalHost)
	h.Metadata.Name = fmt.Sprintf("host-%d", n)
	h.Metadata.UID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	h.Spec.BootMACAddress = fmt.Sprintf("52:54:00:00:01:%02x", n)
	h.Spec.BMC.Address = fmt.Sprintf("redfish-virtualmedia://192.0.2.%d/redfish/v1/Systems/1", n)
	return h
}

func TestConformance(t *testing.T) {
	for _, noSoft := range []bool{false, true} {
		t.Run(fmt.Sprintf("no soft power off %v", noSoft), func(t *testing.T) {
			provisionertest.Run(t, func(t *testing.T) provisionertest.Backend {
				f := newFakeIronic(t)
				f.noSoft = noSoft
				n := 0
				at := func(h *metal3v1alpha1.BareMetalHost) *machine {
					a, err := bmc.Parse(h.Spec.BMC.Address)
					if err != nil {
						t.Fatal(err)
					}
					return f.machineAt(a.Endpoint())
				}
				locked := func(g func()) {
					f.mu.Lock()
					defer f.mu.Unlock()
					g()
				}
				return provisionertest.Backend{
					Factory: func() provisioner.Factory { return f.open().Factory(context.Background()) },
					NewHost: func() (*metal3v1alpha1.BareMetalHost, bmc.Credentials) { n++; return host(n), good },
					Good:    metal3v1alpha1.Image{URL: "http://images/good", Checksum: "aa", ChecksumType: metal3v1alpha1.SHA256},
					Other:   metal3v1alpha1.Image{URL: "http://images/other"},
					Bad:     metal3v1alpha1.Image{URL: "http://images/bad"},
					Forget:  func() { locked(f.forget) },
					Power:   func(h *metal3v1alpha1.BareMetalHost) (on bool) { locked(func() { on = at(h).on }); return on },
					SetPower: func(h *metal3v1alpha1.BareMetalHost, on bool) {
						locked(func() { at(h).on = on; f.sync(f.nodes[h.Status.Provisioning.ID]) })
					},
					Image:        func(h *metal3v1alpha1.BareMetalHost) (s string) { locked(func() { s = at(h).disk }); return s },
					Writes:       func(h *metal3v1alpha1.BareMetalHost) (n int) { locked(func() { n = at(h).writes }); return n },
					SetReachable: func(h *metal3v1alpha1.BareMetalHost, r bool) { locked(func() { at(h).unreachable = !r }) },
					Wait:         func(time.Duration) { <-time.After(time.Millisecond) },
				}
			})
		})
	}
}

// bench is one host with one back end.
type bench struct {
	*fakeIronic
	backend *ironic.Backend
	host    *metal3v1alpha1.BareMetalHost
	events  []string
}

func newBench(t *testing.T) *bench {
	f := newFakeIronic(t)
	return &bench{fakeIronic: f, backend: f.open(), host: host(1)}
}

func (b *bench) p() provisioner.Provisioner {
	b.t.Helper()
	p, err := b.backend.Factory(context.Background())(b.host, good, func(reason, _ string) { b.events = append(b.events, reason) })
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// put registers the host and forces its node into a state.
func (b *bench) put(state string, more ...any) node {
	b.t.Helper()
	if b.host.Status.Provisioning.ID == "" {
		if _, err := b.p().ValidateManagementAccess(false); err != nil {
			b.t.Fatal(err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.until)
	n := b.nodes[b.host.Status.Provisioning.ID]
	n["provision_state"], n["target_provision_state"] = state, nil
	for i := 0; i < len(more); i += 2 {
		n[more[i].(string)] = more[i+1]
	}
	b.log = nil
	return n
}

// sent returns the state-changing requests since put.
func (b *bench) sent() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, l := range b.log {
		method, path, _ := strings.Cut(l, " ")
		if method != "GET" {
			out = append(out, method+" "+path[strings.LastIndex(path, "/")+1:])
		}
	}
	return strings.ReplaceAll(strings.Join(out, ", "), b.host.Status.Provisioning.ID, "node")
}

var everyOtherState = []string{"manageable", "available", "active", "wait call-back", "deploying", "deploy failed", "deploy complete", "deleting", "deleted",
	"cleaning", "clean wait", "clean failed", "error", "rebuild", "inspecting", "inspect failed", "inspect wait", "adopting", "adopt failed", "rescue"}

func TestRegisterInEveryState(t *testing.T) {
	b := newBench(t)
	for _, state := range everyOtherState {
		b.put(state)
		if r, err := b.p().ValidateManagementAccess(false); err != nil || r != (provisioner.Result{}) {
			t.Errorf("%s: %+v, %v", state, r, err)
		}
	}
	for _, c := range []struct {
		state string
		more  []any
		want  provisioner.Result
		sent  string
	}{
		{"enroll", nil, provisioner.Again(time.Millisecond), "PUT provision"},
		{"enroll", []any{"target_provision_state", "manageable"}, provisioner.Again(time.Millisecond), ""},
		{"enroll", []any{"target_provision_state", nil, "last_error", "no such host"}, provisioner.Failed("no such host"), ""},
		{"verifying", []any{"last_error", nil}, provisioner.Again(time.Millisecond), ""},
	} {
		b.put(c.state, c.more...)
		if r, err := b.p().ValidateManagementAccess(false); err != nil || r != c.want || b.sent() != c.sent {
			t.Errorf("%s %v: %+v, %v, sent %q; want %+v, %q", c.state, c.more, r, err, b.sent(), c.want, c.sent)
		}
	}
	b.put("enroll", "last_error", "no such host")
	b.host.Status.ErrorType = metal3v1alpha1.RegistrationError
	if r, err := b.p().ValidateManagementAccess(false); err != nil || !r.Dirty || b.sent() != "PUT provision" {
		t.Errorf("a new try after a failure: %+v, %v, sent %q", r, err, b.sent())
	}
}

func TestRegisterNeedsAMAC(t *testing.T) {
	b := newBench(t)
	b.host.Spec.BootMACAddress = ""
	r, err := b.p().ValidateManagementAccess(false)
	if err != nil || !strings.Contains(r.ErrorMessage, "requires a BootMACAddress") {
		t.Errorf("%+v, %v", r, err)
	}
	b.host.Spec.BMC.Address = "ipmi://192.0.2.1"
	if r, err := b.p().ValidateManagementAccess(false); err != nil || r.ErrorMessage != "" {
		t.Errorf("a driver that needs none: %+v, %v", r, err)
	}
}

func TestRegisterFindsTheNode(t *testing.T) {
	b := newBench(t)
	id := b.put("available").text("uuid")
	b.host.Status.Provisioning.ID = ""
	if _, err := b.p().ValidateManagementAccess(false); err != nil || b.host.Status.Provisioning.ID != id {
		t.Errorf("by name: %s, %v; want %s", b.host.Status.Provisioning.ID, err, id)
	}
	b.put("available", "name", "")
	b.host.Status.Provisioning.ID = ""
	if _, err := b.p().ValidateManagementAccess(false); err != nil || b.host.Status.Provisioning.ID != id || b.nodes[id].text("name") != "host-1" {
		t.Errorf("by MAC: %s, %v, name %q", b.host.Status.Provisioning.ID, err, b.nodes[id].text("name"))
	}
	b.put("available", "name", "somebody-else")
	b.host.Status.Provisioning.ID = ""
	if r, err := b.p().ValidateManagementAccess(false); err != nil || !strings.Contains(r.ErrorMessage, "conflicts with the existing node somebody-else") {
		t.Errorf("a MAC of another node: %+v, %v", r, err)
	}
	delete(b.nodes, id)
	if _, err := b.p().ValidateManagementAccess(false); err == nil || !strings.Contains(err.Error(), id+" is missing") {
		t.Errorf("a port without node: %v", err)
	}
}

func TestRegisterRenewsDriverInfo(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name    string
		change  func()
		changed bool
		state   string
		want    string
	}{
		{"nothing", func() {}, false, "available", ""},
		{"the password", func() {}, true, "available", "PATCH node"},
		{"the address", func() { b.host.Spec.BMC.Address = "redfish-virtualmedia://192.0.2.9/x" }, false, "available", "PATCH node"},
		{"verification", func() { b.host.Spec.BMC.DisableCertificateVerification = true }, false, "available", "PATCH node"},
		{"all while it works", func() {}, true, "deploying", ""},
	} {
		b.put(c.state)
		c.change()
		if r, err := b.p().ValidateManagementAccess(c.changed); err != nil || r != (provisioner.Result{}) || b.sent() != c.want {
			t.Errorf("%s changed: %+v, %v, sent %q, want %q", c.name, r, err, b.sent(), c.want)
		}
	}
}

func TestUnknownDriver(t *testing.T) {
	b := newBench(t)
	b.host.Spec.BMC.Address = "ibmc://192.0.2.1"
	if r, err := b.p().ValidateManagementAccess(false); err != nil || r.ErrorMessage != "Ironic refuses the host: Driver ibmc could not be found." {
		t.Errorf("%+v, %v", r, err)
	}
}

// oneCall is a row of the tables that follow.
type oneCall struct {
	state string
	more  []any
	retry metal3v1alpha1.ErrorType
	want  string // "done", "wait", "ready" (dirty at once), "error: ...", or the ErrorMessage
	sent  string
}

// check makes one call for each row.
func (b *bench) check(rows []oneCall, f func(provisioner.Provisioner) (provisioner.Result, error)) {
	b.t.Helper()
	for _, c := range rows {
		b.put(c.state, c.more...)
		b.host.Status.ErrorType = c.retry
		r, err := f(b.p())
		got := r.ErrorMessage
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case got != "":
		case !r.Dirty:
			got = "done"
		case r.RequeueAfter == 0:
			got = "ready"
		default:
			got = "wait"
		}
		if !strings.HasPrefix(got, c.want) || b.sent() != c.sent {
			b.t.Errorf("%s %v retry %q: %s, sent %q; want %s, %q", c.state, c.more, c.retry, got, b.sent(), c.want, c.sent)
		}
	}
}

func TestOnePassReadsTheNodeOnce(t *testing.T) {
	b := newBench(t)
	b.put("active", "power_state", "power on")
	p := b.p()
	for _, f := range []func() (provisioner.Result, error){
		func() (provisioner.Result, error) { return p.ValidateManagementAccess(false) }, p.Adopt, p.UpdateHardwareState,
	} {
		if _, err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.log) != 1 {
		t.Errorf("requests %v, want one", b.log)
	}
	b.log = nil
	for range 2 { // a command is followed by a fresh look
		if _, err := p.PowerOff(); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(b.log); got != 2 || !strings.HasPrefix(b.log[0], "PUT") || !strings.HasPrefix(b.log[1], "GET") {
		t.Errorf("requests %v, want a PUT and a GET", b.log)
	}
}

func TestAdoptInEveryState(t *testing.T) {
	b := newBench(t)
	b.check([]oneCall{
		{"enroll", nil, "", "error: ", ""},
		{"verifying", nil, "", "error: ", ""},
		{"manageable", nil, "", "wait", "PUT provision"},
		{"adopting", nil, "", "wait", ""},
		{"adopt failed", []any{"last_error", "no image"}, "", "Host adoption failed: no image", ""},
		{"active", []any{"maintenance", true}, "", "ready", "DELETE maintenance"},
		{"active", []any{"maintenance", true, "fault", "power failure"}, "", "done", ""},
		{"active", []any{"maintenance", false, "fault", nil}, "", "done", ""},
	}, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Adopt() })
}

func TestProvisionInEveryState(t *testing.T) {
	b := newBench(t)
	b.host.Spec.Image = &metal3v1alpha1.Image{URL: "u", Checksum: "c"}
	same := map[string]any{"image_source": "u", "image_os_hash_algo": "md5", "image_os_hash_value": "c", "image_checksum": "c"}
	other := map[string]any{"image_source": "u", "image_os_hash_algo": "sha256", "image_os_hash_value": "c"}
	fresh := func(m map[string]any) map[string]any {
		c := make(map[string]any)
		for k, v := range m {
			c[k] = v
		}
		return c
	}
	b.check([]oneCall{
		{"manageable", nil, "", "wait", "PUT provision"},
		{"available", []any{"instance_info", fresh(other)}, "", "wait", "PATCH node, PUT provision"},
		{"available", []any{"maintenance", true}, "", "ready", "DELETE maintenance"},
		{"available", []any{"maintenance", true, "fault", "power failure"}, "", "wait", ""},
		{"deploying", []any{"maintenance", false, "fault", nil}, "", "wait", ""},
		{"wait call-back", nil, "", "wait", ""},
		{"clean failed", []any{"last_error", "no agent"}, "", "Cleaning failed: no agent", ""},
		{"clean failed", nil, metal3v1alpha1.ProvisioningError, "wait", "PUT provision"},
		{"deploy failed", []any{"instance_info", fresh(same), "last_error", "disk on fire"}, "", "Image provisioning failed: disk on fire", ""},
		{"deploy failed", []any{"last_error", nil}, "", "wait", ""},
		{"deploy failed", []any{"instance_info", fresh(same), "last_error", "x"}, metal3v1alpha1.ProvisioningError, "wait", "PUT provision"}, // nothing of it is new
		{"deploy failed", []any{"instance_info", fresh(other), "last_error", "x"}, "", "wait", "PATCH node, PUT provision"},
		{"active", []any{"instance_info", fresh(same)}, "", "done", ""},
		{"active", []any{"instance_info", fresh(other)}, "", "the host carries image u", ""},
		{"enroll", nil, "", "error: ", ""},
	}, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(noData{}) })
}

func TestDeprovisionInEveryState(t *testing.T) {
	b := newBench(t)
	b.check([]oneCall{
		{"active", nil, "", "wait", "PUT provision"},
		{"deploy failed", nil, "", "wait", "PUT provision"},
		{"error", []any{"last_error", "oops"}, "", "Deprovisioning failed: oops", ""},
		{"error", nil, metal3v1alpha1.ProvisioningError, "wait", "PUT provision"},
		{"clean failed", []any{"last_error", "oops"}, "", "Cleaning failed: oops", ""},
		{"clean failed", nil, metal3v1alpha1.ProvisioningError, "wait", "PUT provision"},
		{"manageable", nil, "", "wait", "PUT provision"},
		{"deleting", nil, "", "wait", ""},
		{"cleaning", nil, "", "wait", ""},
		{"available", nil, "", "done", ""},
		{"enroll", nil, "", "error: ", ""},
	}, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Deprovision() })
}

func TestInspectInEveryState(t *testing.T) {
	b := newBench(t)
	b.check([]oneCall{
		{"available", nil, "", "wait", "PUT provision"},
		{"manageable", nil, "", "wait", "PATCH node, PUT provision"},
		{"inspecting", nil, "", "wait", ""},
		{"inspect wait", nil, "", "wait", ""},
		{"inspect failed", []any{"last_error", "Canceled by operator"}, "", "Inspection failed: Canceled by operator", ""},
		{"inspect failed", []any{"last_error", "x"}, metal3v1alpha1.InspectionError, "wait", "PATCH node, PUT provision"},
		{"manageable", nil, "", "done", ""},
		{"active", nil, "", "error: ", ""},
	}, func(p provisioner.Provisioner) (provisioner.Result, error) {
		r, _, err := p.InspectHardware()
		return r, err
	})
	b.put("manageable")
	b.host.Status.OperationHistory.Inspect.Start = time.Now()
	if r, d, err := b.p().InspectHardware(); err != nil || !r.Dirty || d != nil {
		t.Errorf("an inspection asked for later: %+v, %v, %v", r, d, err)
	}
}

func TestDeleteInEveryState(t *testing.T) {
	b := newBench(t)
	b.check([]oneCall{
		{"verifying", nil, "", "wait", ""},
		{"active", nil, "", "ready", "PATCH node"},
		{"active", []any{"maintenance", true}, "", "ready", "DELETE node"},
	}, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Delete() })
	for _, c := range []oneCall{
		{"available", []any{"instance_uuid", "00000000-0000-4000-8000-000000000001"}, "", "ready", "PATCH node, DELETE node"},
		{"manageable", nil, "", "ready", "DELETE node"},
		{"enroll", nil, "", "ready", "DELETE node"},
	} {
		b.host.Status.Provisioning.ID = ""
		b.check([]oneCall{c}, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Delete() })
		if r, err := b.p().Delete(); err != nil || r != (provisioner.Result{}) {
			t.Errorf("once it is gone: %+v, %v", r, err)
		}
	}
}

func TestPowerAnswers(t *testing.T) {
	b := newBench(t)
	on := func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOn() }
	off := func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOff() }
	b.check([]oneCall{
		{"available", []any{"power_state", "power on"}, "", "done", ""},
		{"available", []any{"power_state", nil}, "", "ready", "PUT power"},
		{"available", []any{"power_state", "power off", "target_power_state", "power on"}, "", "wait", ""},
		{"cleaning", []any{"target_power_state", nil, "target_provision_state", "available"}, "", "wait", ""},
	}, on)
	b.check([]oneCall{{"available", []any{"power_state", "power off", "target_provision_state", nil}, "", "done", ""}}, off)
	b.put("available", "power_state", "power off")
	b.fail = func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "power") {
			return 409, "locked"
		}
		return 0, ""
	}
	if r, err := b.p().PowerOn(); err != nil || !r.Dirty {
		t.Errorf("a locked node: %+v, %v, want dirty", r, err)
	}
}

func TestConfigDrive(t *testing.T) {
	b := newBench(t)
	b.put("available")
	b.host.Spec.Image = &metal3v1alpha1.Image{URL: "u"}
	if _, err := b.p().Provision(allData{"#cloud-config", "links: []", "role: web"}); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(b.drives[b.host.Status.Provisioning.ID])
	for _, want := range []string{"user_data:#cloud-config", "links:[]", "role:web", "name:host-1", "uuid:" + b.host.Metadata.UID} {
		if !strings.Contains(got, want) {
			t.Errorf("config drive %s lacks %s", got, want)
		}
	}
	b.put("available")
	for _, bad := range []allData{{"", "- a list: hunter2", ""}, {"", "", "hunter2"}} {
		r, err := b.p().Provision(bad)
		if err != nil || !strings.Contains(r.ErrorMessage, "map") || strings.Contains(r.ErrorMessage, "hunter2") {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestValidationFailure(t *testing.T) {
	b := newBench(t)
	b.put("available")
	b.host.Spec.Image = &metal3v1alpha1.Image{URL: "invalid-scheme:x"}
	if r, err := b.p().Provision(noData{}); err != nil || r.ErrorMessage != "host validation error: image cannot be used" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFaultsOfIronicAreErrors(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504} {
		b := newBench(t)
		b.put("available")
		b.fail = func(*http.Request) (int, string) { return status, "Ironic is on fire " + password }
		for name, f := range map[string]func(provisioner.Provisioner) (provisioner.Result, error){
			"register": func(p provisioner.Provisioner) (provisioner.Result, error) { return p.ValidateManagementAccess(false) },
			"power":    func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOn() },
			"delete":   func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Delete() },
		} {
			r, err := f(b.p())
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("Ironic answers %d", status)) || r != (provisioner.Result{}) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	}
}

func TestIsReady(t *testing.T) {
	b := newBench(t)
	ready := func() bool {
		t.Helper()
		ok, err := b.p().(provisioner.ReadyChecker).IsReady()
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !ready() {
		t.Error("a working Ironic is not ready")
	}
	b.fail = func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "drivers") {
			return 503, "no conductor"
		}
		return 0, ""
	}
	if ready() {
		t.Error("an Ironic without conductor is ready")
	}
}

func TestOldIronicIsRefused(t *testing.T) {
	f := newFakeIronic(t)
	f.version = "1.55"
	b := &bench{fakeIronic: f, backend: f.open(), host: host(1)}
	if _, err := b.p().ValidateManagementAccess(false); !errors.Is(err, errors.NotSupported) {
		t.Errorf("got %v, want NotSupported", err)
	}
	f.version = "1.110"
	if _, err := b.p().ValidateManagementAccess(false); err != nil {
		t.Errorf("a newer Ironic: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for want, c := range map[string]ironic.Config{
		"endpoint":      {Endpoint: "ironic:6385"},
		"go together":   {Endpoint: "http://h", Username: "u"},
		"PEM":           {Endpoint: "http://h", CABundle: "x"},
		`called "disk"`: {Endpoint: "http://h", Interfaces: map[string]string{"disk": "x"}},
	} {
		if _, err := ironic.New(c); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) = %v, want NotValid with %q", c, err, want)
		}
	}
}

func TestDetails(t *testing.T) {
	b := newBench(t)
	b.put("manageable")
	_, _, _ = b.p().InspectHardware()
	b.put("manageable")
	_, d, err := b.p().InspectHardware()
	if err != nil {
		t.Fatal(err)
	}
	if len(d.NIC) != 3 || d.NIC[0].IP != "192.0.2.1" || d.NIC[1].IP != "2001:db8::1" || !d.NIC[0].PXE || d.NIC[2].PXE || d.NIC[0].SpeedGbps != 10 ||
		d.NIC[0].Model != "0x1af4 0x0001" {
		t.Errorf("NICs %+v", d.NIC)
	}
	if d.CPU.ClockMegahertz != 2400 || !slices.Equal(d.CPU.Flags, []string{"aes", "vmx"}) || d.RAMMebibytes != 16384 || d.Storage[0].HCTL != "0:0:0:0" {
		t.Errorf("details %+v", d)
	}
	b.fail = func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "inventory") {
			return 404, "none"
		}
		return 0, ""
	}
	b.put("manageable", "properties", map[string]any{"cpus": "4", "memory_mb": 2048.0, "local_gb": 50, "cpu_arch": "aarch64"})
	if _, d, err := b.p().InspectHardware(); err != nil || d.CPU.Count != 4 || d.RAMMebibytes != 2048 || d.Storage[0].SizeBytes != 50<<30 || d.CPU.Arch != "aarch64" {
		t.Errorf("without inventory: %+v, %v", d, err)
	}
}

// noData is a HostConfigData without data; allData has all three kinds.
type noData struct{}

func (noData) UserData() (string, error)    { return "", nil }
func (noData) NetworkData() (string, error) { return "", nil }

type allData struct{ user, network, meta string }

func (d allData) UserData() (string, error)    { return d.user, nil }
func (d allData) NetworkData() (string, error) { return d.network, nil }
func (d allData) MetaData() (string, error)    { return d.meta, nil }
