package redfish_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/provisionertest"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

// backend returns a rig as the conformance suite wants it.
func (r *rig) suite() provisionertest.Backend {
	return provisionertest.Backend{
		Factory: func() provisioner.Factory {
			r.renew()
			return r.backend.Factory(context.Background())
		},
		NewHost: r.newHost,
		Good:    metal3v1alpha1.Image{URL: "http://images/good"},
		Other:   metal3v1alpha1.Image{URL: "http://images/other"},
		Bad:     metal3v1alpha1.Image{URL: "http://images/bad"},
		Power:   func(h *metal3v1alpha1.BareMetalHost) bool { return r.system(h).PoweredOn() },
		SetPower: func(h *metal3v1alpha1.BareMetalHost, on bool) {
			_ = r.system(h).Reset(map[bool]string{true: "On", false: "ForceOff"}[on])
		},
		Image: func(h *metal3v1alpha1.BareMetalHost) string { return r.system(h).Disk() },
		Writes: func(h *metal3v1alpha1.BareMetalHost) int {
			r.installer.mu.Lock()
			defer r.installer.mu.Unlock()
			return r.installer.writes[r.system(h)]
		},
		SetReachable: func(h *metal3v1alpha1.BareMetalHost, reachable bool) {
			r.hosts[h].ClearFaults()
			if !reachable {
				r.inject(h, fakebmc.Fault{Kind: fakebmc.FaultClose})
			}
		},
		Wait: func(d time.Duration) {
			if d > 0 {
				<-time.After(min(d, 2*time.Millisecond))
			}
		},
	}
}

func TestConformance(t *testing.T) {
	delays := fakebmc.Delays{PowerOn: time.Millisecond, PowerOff: time.Millisecond, SoftOff: 2 * time.Millisecond}
	for _, v := range fakebmc.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			provisionertest.Run(t, func(t *testing.T) provisionertest.Backend {
				return newRig(t, fakebmc.Config{Vendor: v.Name, Delays: delays, MaxSessions: 1000}).suite()
			})
		})
	}
}

func TestConformanceByHTTPBoot(t *testing.T) {
	provisionertest.Run(t, func(t *testing.T) provisionertest.Backend {
		r := newRig(t, fakebmc.Config{MaxSessions: 1000})
		r.scheme = "redfish-uefihttp+http"
		return r.suite()
	})
}

func TestConformanceWithBasicAuthentication(t *testing.T) {
	provisionertest.Run(t, func(t *testing.T) provisionertest.Backend {
		return newRig(t, fakebmc.Config{NoSessions: true}).suite()
	})
}

// provisionerOf returns the Provisioner for one call.
func (r *rig) provisionerOf(h *metal3v1alpha1.BareMetalHost, c bmc.Credentials) provisioner.Provisioner {
	r.t.Helper()
	p, err := r.backend.Factory(context.Background())(h, c, func(reason, _ string) { r.events = append(r.events, reason) })
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// settle calls until the Result is not dirty.
func settle(t *testing.T, f func() (provisioner.Result, error)) (provisioner.Result, error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		r, err := f()
		if err != nil || !r.Dirty {
			return r, err
		}
		<-time.After(min(r.RequeueAfter, 2*time.Millisecond))
	}
	t.Fatal("no end")
	return provisioner.Result{}, nil
}

// register registers a host, which must succeed.
func (r *rig) register(h *metal3v1alpha1.BareMetalHost) {
	r.t.Helper()
	result, err := r.provisionerOf(h, good).ValidateManagementAccess(true)
	if err != nil || result != (provisioner.Result{}) {
		r.t.Fatalf("register: %+v, %v", result, err)
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		fault fakebmc.Fault
		want  string // a part of the ErrorMessage; empty: an error instead
	}{
		"garbage":             {fakebmc.Fault{Kind: fakebmc.FaultGarbage}, "not what Redfish prescribes"},
		"garbage for systems": {fakebmc.Fault{Kind: fakebmc.FaultGarbage, Path: "/Systems"}, "not what Redfish prescribes"},
		"half JSON":           {fakebmc.Fault{Kind: fakebmc.FaultHalfJSON}, "not what Redfish prescribes"},
		"wrong JSON":          {fakebmc.Fault{Kind: fakebmc.FaultWrongJSON, Path: "/Systems"}, "not what Redfish prescribes"},
		"10 MB of JSON":       {fakebmc.Fault{Kind: fakebmc.FaultHuge}, "more than 4 MiB"},
		"redirects for ever":  {fakebmc.Fault{Kind: fakebmc.FaultRedirect}, "we do not follow"},
		"redirect elsewhere":  {fakebmc.Fault{Kind: fakebmc.FaultRedirectOff, Location: "http://evil.test/"}, "http://evil.test/"},
		"401 storm":           {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 401, Path: "/Systems"}, "refuses the user name or password"},
		"401 everywhere":      {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 401}, "401 Unauthorized"},
		"403":                 {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 403, Path: "/Systems"}, "403 Forbidden"},
		"no Redfish":          {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 404}, "404 Not Found"},
		"503":                 {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 503}, ""},
		"429":                 {fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 429, Path: "/Systems"}, ""},
		"hang":                {fakebmc.Fault{Kind: fakebmc.FaultHang}, ""},
		"drip":                {fakebmc.Fault{Kind: fakebmc.FaultDrip}, ""},
		"close":               {fakebmc.Fault{Kind: fakebmc.FaultClose}, ""},
		"empty success":       {fakebmc.Fault{Kind: fakebmc.FaultIgnore, Path: "/Systems"}, "not what Redfish prescribes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fakebmc.Config{})
			if c.fault.Kind == fakebmc.FaultHang || c.fault.Kind == fakebmc.FaultDrip {
				r.options.RequestTimeout, r.options.CallTimeout = 500*time.Millisecond, 5*time.Second
			}
			r.renew()
			h, _ := r.newHost()
			r.inject(h, c.fault)
			result, err := r.provisionerOf(h, good).ValidateManagementAccess(true)
			message := result.ErrorMessage
			if err != nil {
				message = err.Error()
			}
			if (c.want == "") != (err != nil) || !strings.Contains(message, c.want) || message == "" {
				t.Fatalf("got %+v, %v; want %q", result, err, c.want)
			}
			if strings.ContainsAny(message, "\n\x00") || strings.Contains(message, password) || len(message) > 600 {
				t.Errorf("not one clear line: %q", message)
			}
			r.hosts[h].ClearFaults()
			r.options.RequestTimeout, r.options.CallTimeout = 0, 0
			r.renew()
			r.register(h) // and all is well once the BMC is
			if result, details, err := r.provisionerOf(h, good).InspectHardware(); err != nil || details == nil {
				t.Errorf("inspect = %+v, %v, %v", result, details, err)
			}
		})
	}
}

func TestHostileInventory(t *testing.T) {
	for _, kind := range []fakebmc.FaultKind{fakebmc.FaultGarbage, fakebmc.FaultHalfJSON, fakebmc.FaultWrongJSON, fakebmc.FaultHuge, fakebmc.FaultRedirect} {
		for _, path := range []string{"/Processors", "/Memory/", "/Drives/", "/EthernetInterfaces"} {
			t.Run(string(kind)+path, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, fakebmc.Config{})
				h, _ := r.newHost()
				r.register(h)
				r.inject(h, fakebmc.Fault{Kind: kind, Path: path})
				result, details, err := r.provisionerOf(h, good).InspectHardware()
				if err != nil || details != nil || result.ErrorMessage == "" || len(result.ErrorMessage) > 600 {
					t.Errorf("inspect = %+v, %v, %v; want an ErrorMessage", result, details, err)
				}
			})
		}
	}
}

func TestInspectionDoesWithoutMissingParts(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	for _, part := range []string{"/Processors", "/Memory", "/Storage"} {
		r.inject(h, fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: 404, Path: part})
	}
	result, details, err := r.provisionerOf(h, good).InspectHardware()
	if err != nil || details == nil {
		t.Fatalf("inspect = %+v, %v", result, err)
	}
	if details.CPU.Count != 16 || details.RAMMebibytes != 32<<10 || len(details.Storage) != 0 {
		t.Errorf("details %+v, want 16 CPUs and 32 GiB from the summaries", details)
	}
}

func TestInspectionReadsEverything(t *testing.T) {
	r := newRig(t, fakebmc.Config{FirstSystem: 4})
	h, _ := r.newHost()
	h.Spec.BootMACAddress = "52:54:00:00:00:04"
	r.register(h)
	_, d, err := r.provisionerOf(h, good).InspectHardware()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %s %d MiB, %d x %s %s %g MHz, %d NICs, %s pxe %v %d Gbps, %d disks, %s %d rotational %v %s", d.SystemVendor.Manufacturer,
		d.SystemVendor.SerialNumber, d.RAMMebibytes, d.CPU.Count, d.CPU.Arch, d.CPU.Model, d.CPU.ClockMegahertz, len(d.NIC), d.NIC[0].MAC, d.NIC[0].PXE,
		d.NIC[0].SpeedGbps, len(d.Storage), d.Storage[1].Name, d.Storage[1].SizeBytes, d.Storage[1].Rotational, d.Storage[1].WWN)
	want := "Contoso FAKE000004 65536 MiB, 32 x x86_64 Fake Xeon 3000 3000 MHz, 2 NICs, 52:54:00:00:00:04 pxe true 25 Gbps, 2 disks, Disk.Bay.1 1920000000000 rotational true 0x5000c50000000410"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPowerThatLies(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.options.PowerTimeout = 50 * time.Millisecond
	r.renew()
	h, _ := r.newHost()
	r.register(h)
	r.inject(h, fakebmc.Fault{Kind: fakebmc.FaultIgnore, Path: "ComputerSystem.Reset"})
	result, err := settle(t, func() (provisioner.Result, error) { return r.provisionerOf(h, good).PowerOn() })
	if err != nil || !strings.Contains(result.ErrorMessage, `accepted power command On`) || !strings.Contains(result.ErrorMessage, `still "Off"`) {
		t.Fatalf("PowerOn = %+v, %v", result, err)
	}
	r.hosts[h].ClearFaults()
	for end := time.Now().Add(time.Minute); ; { // one that is busy may need longer than PowerTimeout
		result, err := settle(t, func() (provisioner.Result, error) { return r.provisionerOf(h, good).PowerOn() })
		if err == nil && result.ErrorMessage == "" {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("PowerOn of a BMC that came to its senses = %+v, %v", result, err)
		}
	}
}

func TestDeafOperatingSystemIsPoweredOffHard(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.config.Machine = func(int) fakebmc.Machine { return fakebmc.Memory{Deaf: true} }
	r.options.SoftOffTimeout = 20 * time.Millisecond
	r.renew()
	h, _ := r.newHost()
	r.register(h)
	for _, f := range []func() (provisioner.Result, error){
		func() (provisioner.Result, error) { return r.provisionerOf(h, good).PowerOn() },
		func() (provisioner.Result, error) { return r.provisionerOf(h, good).PowerOff() },
	} {
		if result, err := settle(t, f); err != nil || result.ErrorMessage != "" {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if got := fmt.Sprint(r.system(h).Commands()); got != "[On GracefulShutdown ForceOff]" {
		t.Errorf("commands %s", got)
	}
}

func TestPowerCommandsAreSerialised(t *testing.T) {
	r := newRig(t, fakebmc.Config{Delays: fakebmc.Delays{PowerOn: 30 * time.Millisecond, PowerOff: 30 * time.Millisecond}})
	h, _ := r.newHost()
	r.register(h)
	done := make(chan error)
	for range 8 {
		mine := h.Copy()
		go func() {
			for {
				p, err := r.backend.Factory(context.Background())(mine, good, func(string, string) {})
				if err == nil {
					var result provisioner.Result
					if result, err = p.PowerOn(); err == nil && result.Dirty {
						<-time.After(time.Millisecond)
						continue
					}
				}
				done <- err
				return
			}
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := fmt.Sprint(r.system(h).Commands()); got != "[On]" || r.system(h).Overlapped() {
		t.Errorf("commands %s, overlapped %v; want one", got, r.system(h).Overlapped())
	}
	if s := r.hosts[h].Stats(); s.MaxInFlight > 4 || s.LoggedIn != 1 {
		t.Errorf("%d requests in flight and %d sessions, want at most 4 and 1", s.MaxInFlight, s.LoggedIn)
	}
}

func TestSessionLimit(t *testing.T) {
	r := newRig(t, fakebmc.Config{MaxSessions: 1})
	h, _ := r.newHost()
	r.register(h)
	r.renew() // the old session stays behind and uses the only place up
	r.register(h)

	r = newRig(t, fakebmc.Config{MaxSessions: 1, NoBasic: true})
	h, _ = r.newHost()
	r.register(h)
	r.renew()
	result, err := r.provisionerOf(h, good).ValidateManagementAccess(true)
	if err != nil || !strings.Contains(result.ErrorMessage, "no free session") {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestSessionsEnd(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	r.backend.Close(context.Background())
	if s := r.hosts[h].Stats(); s.Sessions != 0 || s.LoggedIn != 1 {
		t.Errorf("after Close: %+v", s)
	}
	r.register(h)
	r.hosts[h].SetCredentials(good) // the BMC ends all sessions
	if result, err := r.provisionerOf(h, good).UpdateHardwareState(); err != nil || result.ErrorMessage != "" {
		t.Errorf("with an expired session: %+v, %v", result, err)
	}
}

func TestCertificates(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.scheme, r.tls = "redfish", true
	try := func(change func(*metal3v1alpha1.BMCDetails, string, string)) string {
		t.Helper()
		h, _ := r.newHost()
		pin, bundle := r.certificate(h)
		change(&h.Spec.BMC, pin, bundle)
		result, err := r.provisionerOf(h, good).ValidateManagementAccess(true)
		if err != nil {
			t.Fatalf("got an error, want a verdict: %v", err)
		}
		return result.ErrorMessage
	}
	for name, c := range map[string]struct {
		change func(*metal3v1alpha1.BMCDetails, string, string)
		want   string
	}{
		"unknown":   {func(*metal3v1alpha1.BMCDetails, string, string) {}, "pin this fingerprint"},
		"CA":        {func(d *metal3v1alpha1.BMCDetails, _, ca string) { d.CABundle = ca }, ""},
		"pinned":    {func(d *metal3v1alpha1.BMCDetails, pin, _ string) { d.CertificateFingerprint = strings.ToUpper(pin) }, ""},
		"wrong pin": {func(d *metal3v1alpha1.BMCDetails, _, _ string) { d.CertificateFingerprint = strings.Repeat("ab", 32) }, "not the pinned abab"},
		"unchecked": {func(d *metal3v1alpha1.BMCDetails, _, _ string) { d.DisableCertificateVerification = true }, ""},
		"plain": {func(d *metal3v1alpha1.BMCDetails, _, _ string) {
			d.Address = strings.Replace(d.Address, "redfish:", "redfish+http:", 1)
		}, "400"},
	} {
		if got := try(c.change); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: message %q, want %q", name, got, c.want)
		}
	}
	h, _ := r.newHost()
	for _, d := range []metal3v1alpha1.BMCDetails{{CertificateFingerprint: "12"}, {CABundle: "x"}} {
		d.Address = h.Spec.BMC.Address
		h.Spec.BMC = d
		if _, err := r.backend.Factory(context.Background())(h, good, nil); !errors.Is(err, errors.NotValid) {
			t.Errorf("factory with %+v: %v, want NotValid", d, err)
		}
	}
}

func TestBootOverrideThatDoesNotStay(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	r.inject(h, fakebmc.Fault{Kind: fakebmc.FaultIgnore, Method: "PATCH"})
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	result, err := settle(t, func() (provisioner.Result, error) { return r.provisionerOf(h, good).Provision(noData{}) })
	if err != nil || !strings.Contains(result.ErrorMessage, "does not keep it") {
		t.Errorf("Provision = %+v, %v", result, err)
	}
	if r.system(h).PoweredOn() {
		t.Error("the machine was powered on without its boot source")
	}
}

func TestAMachineThatIsOnIsPoweredOffBeforeItBootsTheInstaller(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	if err := r.system(h).Reset("On"); err != nil {
		t.Fatal(err)
	}
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	if result, err := settle(t, func() (provisioner.Result, error) { return r.provisionerOf(h, good).Provision(noData{}) }); err != nil || result.ErrorMessage != "" {
		t.Fatalf("Provision = %+v, %v", result, err)
	}
	if got := fmt.Sprint(r.system(h).Commands()); got != "[On ForceOff On ForceOff On]" {
		t.Errorf("commands %s", got)
	}
	var sources []fakebmc.BootSource
	for _, b := range r.system(h).Boots() {
		sources = append(sources, b.Source)
	}
	if got := fmt.Sprint(sources); got != "[None Cd Hdd]" || r.system(h).Media() != "" {
		t.Errorf("boots %s, medium left %q", got, r.system(h).Media())
	}
}

func TestWithoutInstaller(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.options.Installer = nil
	r.renew()
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	result, err := r.provisionerOf(h, good).Provision(noData{})
	if err != nil || !strings.Contains(result.ErrorMessage, "no installer") {
		t.Errorf("Provision = %+v, %v", result, err)
	}
	if result, err := r.provisionerOf(h, good).Delete(); err != nil || result != (provisioner.Result{}) {
		t.Errorf("Delete = %+v, %v", result, err)
	}
}

func TestSeveralSystems(t *testing.T) {
	r := newRig(t, fakebmc.Config{Systems: 3})
	h, _ := r.newHost()
	result, err := r.provisionerOf(h, good).ValidateManagementAccess(true)
	if err != nil || !strings.Contains(result.ErrorMessage, "has 3 systems; name one in its address, for example /redfish/v1/Systems/1") {
		t.Fatalf("got %+v, %v", result, err)
	}
	h.Spec.BMC.Address += "/redfish/v1/Systems/3"
	r.register(h)
	h.Spec.BMC.Address = strings.Replace(h.Spec.BMC.Address, "Systems/3", "Systems/9", 1)
	result, err = r.provisionerOf(h, good).ValidateManagementAccess(true)
	if err != nil || !strings.Contains(result.ErrorMessage, "no system at /redfish/v1/Systems/9") {
		t.Fatalf("got %+v, %v", result, err)
	}
}

func TestOtherFamiliesAreRefused(t *testing.T) {
	b := redfish.New(redfish.Options{})
	h := new(metal3v1alpha1.BareMetalHost)
	h.Spec.BMC.Address = "ipmi://192.0.2.1"
	if _, err := b.Factory(context.Background())(h, good, nil); !errors.Is(err, errors.NotSupported) {
		t.Errorf("factory for IPMI: %v, want NotSupported", err)
	}
}

// noData is a HostConfigData without data.
type noData struct{}

func (noData) UserData() (string, error)    { return "", nil }
func (noData) NetworkData() (string, error) { return "", nil }
