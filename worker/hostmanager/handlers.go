package hostmanager

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// MaxProvisioningFailures is how often one image is tried on one host before only
// a person's wish leads to another try.
const MaxProvisioningFailures = 5

// MaxRemovalFailures is how often an operation of a removal may fail before the
// removal goes on without it.
const MaxRemovalFailures = 3

// none handles a host that was never looked at.
func (p *pass) none() outcome {
	if p.host.HasBMCDetails() {
		return advanceTo(metal3v1alpha1.StateRegistering)
	}
	p.host.Status.OperationalStatus = metal3v1alpha1.OperationalStatusDiscovered
	p.publish("Discovered", "Discovered host with no BMC details")
	return advanceTo(metal3v1alpha1.StateUnmanaged)
}

// unmanaged handles a host without BMC.
func (p *pass) unmanaged() outcome {
	if p.host.HasBMCDetails() {
		p.host.Status.OperationalStatus = metal3v1alpha1.OperationalStatusOK
		return advanceTo(metal3v1alpha1.StateRegistering)
	}
	return outcome{kind: parked, reason: "the address of the host's BMC is not known"}
}

// registering handles a host that is registered by now: every pass begins so.
func (p *pass) registering() outcome {
	p.host.Status.ErrorCount = 0
	switch {
	case p.host.Spec.ExternallyProvisioned:
		return advanceTo(metal3v1alpha1.StateExternallyProvisioned)
	case p.host.InspectionDisabled():
		return advanceTo(metal3v1alpha1.StateMatchProfile)
	}
	return p.toInspecting()
}

// toInspecting leads to an inspection.
func (p *pass) toInspecting() outcome {
	p.host.Status.Provisioning.BootMode = p.host.EffectiveBootMode()
	return advanceTo(metal3v1alpha1.StateInspecting)
}

// inspecting handles a host that is being inspected.
func (p *pass) inspecting() outcome {
	if err := p.intend(); err != nil {
		return fault(err)
	}
	result, details, err := p.p.InspectHardware()
	if o, ok := p.sort(result, err, p.state.failure, p.state.reason); !ok {
		return o
	}
	if details != nil {
		p.host.Status.HardwareDetails = details
	}
	p.host.Status.ErrorCount = 0
	return advanceTo(metal3v1alpha1.StateMatchProfile)
}

// matchProfile gives the host its profile.
func (p *pass) matchProfile() outcome {
	name := p.host.Spec.HardwareProfile
	switch {
	case name != "":
	case strings.HasPrefix(p.host.Spec.BMC.Address, "libvirt"):
		name = "libvirt"
	default:
		name = metal3v1alpha1.DefaultProfile
	}
	if _, ok := metal3v1alpha1.ProfileNamed(name); !ok {
		return failure(p.state.failure, fmt.Sprintf("there is no hardware profile %q", name))
	}
	if p.host.Status.HardwareProfile != name {
		p.host.Status.HardwareProfile = name
		p.publish("ProfileSet", "Hardware profile set: "+name)
	}
	p.host.Status.ErrorCount = 0
	return advanceTo(metal3v1alpha1.StateReady)
}

// ready handles a host that waits to be used.
func (p *pass) ready() outcome {
	s := &p.host.Status
	switch {
	case p.host.Spec.ExternallyProvisioned:
		return advanceTo(metal3v1alpha1.StateExternallyProvisioned)
	case p.host.InspectionRequested():
		p.clear(metal3v1alpha1.InspectAnnotation)
		s.HardwareDetails = nil
		return p.toInspecting()
	case p.host.NeedsProvisioning():
		if !p.mayTry() {
			return outcome{kind: parked, reason: fmt.Sprintf("the image failed %d times; give another, or ask for a retry", s.ProvisioningFailCount)}
		}
		s.Provisioning.RootDeviceHints = p.host.EffectiveHints()
		s.Provisioning.BootMode = p.host.EffectiveBootMode()
		p.clearReboot()
		return advanceTo(metal3v1alpha1.StateProvisioning)
	}
	return p.managePower(metal3v1alpha1.PowerManagementError)
}

// mayTry reports whether the image of the spec may be tried once more; another one
// than the last always may.
func (p *pass) mayTry() bool {
	s := &p.host.Status
	if s.LastAttemptedImage != p.host.Spec.Image.URL {
		s.LastAttemptedImage, s.ProvisioningFailCount = p.host.Spec.Image.URL, 0
	}
	return s.ProvisioningFailCount < MaxProvisioningFailures
}

// clearReboot drops all wishes for a reboot: the host gets one anyway.
func (p *pass) clearReboot() {
	for key := range p.host.Metadata.Annotations {
		if key == metal3v1alpha1.RebootAnnotation || strings.HasPrefix(key, metal3v1alpha1.RebootAnnotation+"/") {
			p.clear(key)
		}
	}
}

// provisioning handles a host that gets its image. What failed is removed before
// it is tried again.
func (p *pass) provisioning() outcome {
	s := &p.host.Status
	if p.host.ImageChanged() || s.LastAttemptedImage != "" && s.LastAttemptedImage != p.host.Spec.Image.URL {
		return advanceTo(metal3v1alpha1.StateDeprovisioning)
	}
	if s.ErrorType == metal3v1alpha1.ProvisioningError {
		if s.ProvisioningFailCount >= MaxProvisioningFailures {
			return outcome{kind: parked, reason: s.ErrorMessage}
		}
		return advanceTo(metal3v1alpha1.StateDeprovisioning)
	}
	if place, ok := p.enter(); !ok {
		p.record.Progress.Place = place
		return outcome{kind: queued, reason: fmt.Sprintf("a place among those that write images; it is number %d in the queue", place)}
	}
	if err := p.intend(); err != nil {
		return fault(err)
	}
	var config provisioner.HostConfigData = noConfig{}
	if p.record.Config != nil {
		config = p.record.Config
	}
	result, err := p.p.Provision(config)
	if o, ok := p.sort(result, err, p.state.failure, p.state.reason); !ok {
		if o.kind == failed {
			s.ProvisioningFailCount++
			s.LastAttemptedImage = p.host.Spec.Image.URL
			s.ErrorCount = max(s.ErrorCount, s.ProvisioningFailCount-1) // deprovisioning in between cleared it
		}
		return o
	}
	s.ErrorCount, s.ProvisioningFailCount, s.LastAttemptedImage = 0, 0, ""
	s.Provisioning.Image = *p.host.Spec.Image
	if teller, ok := p.p.(provisioner.DetailsTeller); ok {
		s.HardwareDetails = better(s.HardwareDetails, teller.Details())
	}
	return advanceTo(metal3v1alpha1.StateProvisioned)
}

// better puts what the host's own system has seen of the hardware over what is known by
// its BMC, which tells less of disks and network ports.
func better(known, seen *metal3v1alpha1.HardwareDetails) *metal3v1alpha1.HardwareDetails {
	if known == nil || seen == nil {
		return cmp.Or(seen, known)
	}
	out := *known
	out.CPU.Count, out.CPU.Arch = seen.CPU.Count, seen.CPU.Arch
	out.CPU.Model = cmp.Or(seen.CPU.Model, known.CPU.Model)
	out.RAMMebibytes = cmp.Or(seen.RAMMebibytes, known.RAMMebibytes)
	if len(seen.Storage) > 0 {
		out.Storage = seen.Storage
	}
	if len(seen.NIC) > 0 {
		out.NIC = seen.NIC
	}
	for _, text := range []struct{ to, from *string }{
		{&out.SystemVendor.Manufacturer, &seen.SystemVendor.Manufacturer}, {&out.SystemVendor.ProductName, &seen.SystemVendor.ProductName},
		{&out.SystemVendor.SerialNumber, &seen.SystemVendor.SerialNumber}, {&out.Firmware.BIOS.Version, &seen.Firmware.BIOS.Version},
		{&out.Firmware.BIOS.Vendor, &seen.Firmware.BIOS.Vendor}, {&out.Firmware.BIOS.Date, &seen.Firmware.BIOS.Date},
	} {
		if *text.to == "" {
			*text.to = *text.from
		}
	}
	return &out
}

// noConfig is the HostConfigData of a host that has none.
type noConfig struct{}

func (noConfig) UserData() (string, error)    { return "", nil }
func (noConfig) NetworkData() (string, error) { return "", nil }

// provisioned handles a host that carries its image. An error never leads out of
// this state.
func (p *pass) provisioned() outcome {
	if p.host.ImageChanged() {
		return advanceTo(metal3v1alpha1.StateDeprovisioning)
	}
	if o, ok := p.adopt(); !ok {
		return o
	}
	return p.managePower(metal3v1alpha1.PowerManagementError)
}

// external handles a host that carries an image of somebody else's.
func (p *pass) external() outcome {
	if !p.host.Spec.ExternallyProvisioned {
		switch {
		case p.host.Status.HardwareDetails == nil && !p.host.InspectionDisabled():
			return p.toInspecting()
		case p.host.Status.HardwareProfile == "":
			return advanceTo(metal3v1alpha1.StateMatchProfile)
		}
		return advanceTo(metal3v1alpha1.StateReady)
	}
	if o, ok := p.adopt(); !ok {
		return o
	}
	return p.managePower(metal3v1alpha1.PowerManagementError)
}

// adopt makes the back end regard the host as carrying its image.
func (p *pass) adopt() (outcome, bool) {
	result, err := p.p.Adopt()
	o, ok := p.sort(result, err, metal3v1alpha1.ProvisionedRegistrationError, "the back end to adopt the host")
	if ok && p.host.Status.ErrorType == metal3v1alpha1.ProvisionedRegistrationError {
		p.clearError()
	}
	return o, ok
}

// deprovisioning handles a host whose image is being removed.
func (p *pass) deprovisioning() outcome {
	s := &p.host.Status
	if err := p.intend(); err != nil {
		return fault(err)
	}
	if s.Provisioning.Image.URL != "" {
		// A host that cannot be adopted can still be wiped: a verdict is no reason
		// to stop.
		if o, ok := p.adopt(); !ok && o.kind != failed {
			return o
		}
	}
	result, err := p.p.Deprovision()
	if errors.Is(err, provisioner.ErrNotRegistered) && p.host.Deleting() && p.record.Credentials.Validate() != nil {
		return advanceTo(metal3v1alpha1.StateDeleting)
	}
	if o, ok := p.sort(result, err, p.state.failure, p.state.reason); !ok {
		return o
	}
	s.ErrorCount = 0
	s.Provisioning.Image = metal3v1alpha1.Image{}
	s.Provisioning.RootDeviceHints = nil
	p.clearReboot()
	if p.host.Deleting() {
		return advanceTo(metal3v1alpha1.StateDeleting)
	}
	return advanceTo(metal3v1alpha1.StateReady)
}

// deleting handles a host that the back end is to forget.
func (p *pass) deleting() outcome {
	if err := p.intend(); err != nil {
		return fault(err)
	}
	result, err := p.p.Delete()
	if errors.Is(err, provisioner.ErrNotRegistered) {
		return outcome{kind: removed}
	}
	if o, ok := p.sort(result, err, p.state.failure, p.state.reason); !ok {
		return o
	}
	return outcome{kind: removed}
}

// managePower brings the host's power to what it should be.
func (p *pass) managePower(kind metal3v1alpha1.ErrorType) outcome {
	s := &p.host.Status
	result, err := p.p.UpdateHardwareState()
	if result.Dirty && err == nil && result.ErrorMessage == "" {
		result.Dirty = false // it is saved with the rest
	}
	if o, ok := p.sort(result, err, kind, "the power state to be read"); !ok {
		return o
	}
	mode, reboot := p.host.RebootRequested()
	if _, plain := p.host.Metadata.Annotations[metal3v1alpha1.RebootAnnotation]; plain && !s.PoweredOn {
		p.clear(metal3v1alpha1.RebootAnnotation)
		_, reboot = p.host.RebootRequested()
	}
	want := p.host.Spec.Online && !(reboot && p.state.name != metal3v1alpha1.StateReady)
	if s.PoweredOn == want {
		s.ErrorCount = 0
		return outcome{kind: resting}
	}
	if err := p.intend(); err != nil {
		return fault(err)
	}
	call, reason := p.p.PowerOff, "the host to be powered off"
	if want {
		call, reason = p.p.PowerOn, "the host to be powered on"
	}
	before := s.ErrorType
	if reboot && mode == metal3v1alpha1.RebootHard && !want {
		// The interface has no other way to ask for it: after an error of power
		// management a back end does not ask the operating system first.
		s.ErrorType = metal3v1alpha1.PowerManagementError
	}
	result, err = call()
	s.ErrorType = before
	if o, ok := p.sort(result, err, kind, reason); !ok {
		return o
	}
	s.PoweredOn = want
	s.ErrorCount = 0
	return advanceTo(p.state.name)
}
