package redfish_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

func TestInstallerThatNeverReports(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.installer.silent = true
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	provision := func() (provisioner.Result, error) {
		r.installer.mu.Lock()
		if job := r.installer.jobs[h.Metadata.Name]; job != nil && !job.Booted.IsZero() {
			job.Started = job.Started.Add(-time.Hour) // time passes
		}
		r.installer.mu.Unlock()
		return r.provisionerOf(h, good).Provision(noData{})
	}
	result, err := settle(t, provision)
	if err != nil || !strings.Contains(result.ErrorMessage, "has not reported within") || !strings.Contains(result.ErrorMessage, "given up after 3 boots") {
		t.Errorf("Provision = %+v, %v", result, err)
	}
	if len(r.installer.renewals) != 2 || len(r.system(h).Boots()) != 3 || r.system(h).Media() != "http://installer.test/3.iso" {
		t.Errorf("renewals %q, boots %+v, medium %q", r.installer.renewals, r.system(h).Boots(), r.system(h).Media())
	}
}

// What was given up is begun anew by the next try: a machine whose installer did not report for so
// long that all boots were used up is not lost, neither to an image nor to a wipe.
func TestAJobThatWasGivenUpIsBegunAnew(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	late := func(phase redfish.Phase) {
		r.installer.mu.Lock()
		defer r.installer.mu.Unlock()
		if job := r.installer.jobs[h.Metadata.Name]; job != nil && r.installer.silent && !job.Booted.IsZero() {
			job.Phase, job.Started, job.LastReport = phase, job.Started.Add(-time.Hour), time.Now().Add(-time.Hour)
		}
	}
	for what, call := range map[string]func() (provisioner.Result, error){
		"image": func() (provisioner.Result, error) { return r.provisionerOf(h, good).Provision(noData{}) },
		"wipe":  func() (provisioner.Result, error) { return r.provisionerOf(h, good).Deprovision() },
	} {
		h.Status.Provisioning.Image.URL = h.Spec.Image.URL
		for _, phase := range []redfish.Phase{redfish.PhaseWaiting, redfish.PhaseRunning} {
			silence := func(on bool) {
				r.installer.mu.Lock()
				defer r.installer.mu.Unlock()
				r.installer.silent = on
				delete(r.installer.jobs, map[bool]string{true: h.Metadata.Name}[on])
			}
			silence(true)
			h.Status.ErrorType = metal3v1alpha1.NoError
			result, err := settle(t, func() (provisioner.Result, error) { late(phase); return call() })
			if err != nil || !strings.Contains(result.ErrorMessage, "given up after 3 boots") {
				t.Fatalf("%s, %s: %+v, %v", what, phase, result, err)
			}
			if result, err = settle(t, call); err != nil || !strings.Contains(result.ErrorMessage, "given up after 3 boots") {
				t.Errorf("%s, %s: without a wish for another try: %+v, %v", what, phase, result, err)
			}
			silence(false)
			h.Status.ErrorType = metal3v1alpha1.ProvisioningError // as the manager leaves it, and calls again when it is time
			try := func() (provisioner.Result, error) {
				result, err := call()
				h.Status.ErrorType = metal3v1alpha1.NoError
				return result, err
			}
			if result, err = settle(t, try); err != nil || result.ErrorMessage != "" {
				t.Errorf("%s, %s: the next try: %+v, %v", what, phase, result, err)
			}
		}
	}
}

// The reason tells of Secure Boot only where the BMC says that it is on.
func TestAnInstallerThatSecureBootMayHaveRefused(t *testing.T) {
	for _, signed := range []bool{true, false} {
		r := newRig(t, fakebmc.Config{})
		r.config.Machine = func(int) fakebmc.Machine { return fakebmc.Memory{Signed: signed} } // nothing runs on it
		h, _ := r.newHost()
		r.register(h)
		h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
		result, err := settle(t, func() (provisioner.Result, error) {
			r.installer.mu.Lock()
			if job := r.installer.jobs[h.Metadata.Name]; job != nil && !job.Booted.IsZero() {
				job.Started = job.Started.Add(-time.Hour)
			}
			r.installer.mu.Unlock()
			return r.provisionerOf(h, good).Provision(noData{})
		})
		if err != nil || strings.Contains(result.ErrorMessage, "Secure Boot is on: is the installer signed") != signed || !strings.Contains(result.ErrorMessage, "given up after 3 boots") {
			t.Errorf("with Secure Boot %v: Provision = %+v, %v", signed, result, err)
		}
	}
}

func TestAMachineThatFallsSilentIsBootedAnew(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	r.installer.silent = true
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	var steps []string
	provision := func() (provisioner.Result, error) {
		r.installer.mu.Lock()
		if job := r.installer.jobs[h.Metadata.Name]; job != nil && !job.Booted.IsZero() && job.Number == 1 {
			job.Phase, job.Step, job.LastReport = redfish.PhaseRunning, "stream-image", time.Now().Add(-3*time.Minute) // the power is cut
			r.installer.silent = false                                                                                 // the next boot gets through
		}
		r.installer.mu.Unlock()
		p := r.provisionerOf(h, good)
		result, err := p.Provision(noData{})
		steps = append(steps, p.(provisioner.ProgressTeller).Progress())
		return result, err
	}
	if result, err := settle(t, provision); err != nil || result.ErrorMessage != "" {
		t.Fatalf("Provision = %+v, %v", result, err)
	}
	if all := strings.Join(r.installer.renewals, ","); !strings.Contains(all, `silent for 3m0s, since step "stream-image"`) || len(r.installer.renewals) != 1 {
		t.Errorf("renewals %q", all)
	}
	if !slices.Contains(steps, "stream-image") || !slices.Contains(r.events, "InstallerRestarted") {
		t.Errorf("steps told: %q; events %q", steps, r.events)
	}
	if boots := r.system(h).Boots(); len(boots) != 3 || boots[0].URL == boots[1].URL || boots[2].URL != "" {
		t.Errorf("boots %+v, want two media and then the disk", boots)
	}
}

func TestWhatAnInstallerIsTold(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	h.Status.Provisioning.RootDeviceHints = &metal3v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"}
	h.Status.HardwareProfile = metal3v1alpha1.DefaultProfile
	h.Metadata.Annotations = map[string]string{
		metal3v1alpha1.KeepDisksAnnotation: "S1, S2", metal3v1alpha1.InstallerNetworkAnnotation: `{"dns":["192.0.2.1"]}`, metal3v1alpha1.WipeAnnotation: "soft",
	}
	if _, err := r.provisionerOf(h, good).Provision(noData{}); err != nil {
		t.Fatal(err)
	}
	if j := r.installer.job; j.RootHints != nil || j.Name != h.Metadata.Name || len(j.KeepDisks) != 2 || j.KeepDisks[1] != "S2" || j.Network != `{"dns":["192.0.2.1"]}` || j.Soft {
		t.Errorf("job %+v: the guess of a profile is no hint", j)
	}
	h.Spec.RootDeviceHints = &metal3v1alpha1.RootDeviceHints{SerialNumber: "S1"}
	h.Status.Provisioning.RootDeviceHints = nil
	h.Status.Provisioning.Image.URL = "http://images/good"
	if _, err := r.provisionerOf(h, good).Deprovision(); err != nil {
		t.Fatal(err)
	}
	if j := r.installer.job; j.RootHints == nil || j.RootHints.SerialNumber != "S1" || !j.Soft || j.Purpose != redfish.PurposeWipe {
		t.Errorf("job %+v", j)
	}
}

func TestAJobThatIsRefusedIsAVerdict(t *testing.T) {
	r := newRig(t, fakebmc.Config{})
	h, _ := r.newHost()
	r.register(h)
	h.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
	for _, kind := range []errors.ConstError{errors.NotValid, errors.BadRequest, errors.NotSupported} {
		r.installer.refuse = errors.WithType(errors.New("image without a checksum"), kind)
		if result, err := r.provisionerOf(h, good).Provision(noData{}); err != nil || result.ErrorMessage != "image without a checksum" {
			t.Errorf("Provision refused as %v = %+v, %v", kind, result, err)
		}
	}
	r.installer.refuse = errors.New("connection lost")
	if result, err := r.provisionerOf(h, good).Provision(noData{}); err == nil || result.ErrorMessage != "" {
		t.Errorf("Provision with a controller that is away = %+v, %v", result, err)
	}
}
