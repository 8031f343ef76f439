package provisionertest

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

func testRegister(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.register()
	id := b.host.Status.Provisioning.ID
	if id == "" {
		t.Fatal("registration left no ID")
	}
	if b.count("Registered") != 1 {
		t.Errorf("events %v, want one Registered", b.events)
	}
	b.done("register again", validate(false))
	b.done("register with new credentials", validate(true))
	if b.host.Status.Provisioning.ID != id || b.count("Registered") != 1 {
		t.Errorf("a second registration gave ID %q and events %v", b.host.Status.Provisioning.ID, b.events)
	}
	b.host.Status.Provisioning.ID = "" // as if the record had not been saved
	b.done("register without ID", validate(false))
	if got := b.host.Status.Provisioning.ID; got != id {
		t.Errorf("a registration whose record was lost gave ID %q, want %q again", got, id)
	}
}

func testWrongPassword(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	good := b.creds
	b.creds = bmc.Credentials{Username: good.Username, Password: "certainly-wrong"}
	b.state(metal3v1alpha1.StateRegistering)
	first := b.fails("register with a wrong password", validate(true))
	b.host.Status.ErrorType = metal3v1alpha1.RegistrationError
	b.host.Status.ErrorMessage = first
	b.creds = good
	b.done("register with the right password", validate(true))
	b.host.Status.ErrorType = ""
	b.inspect()
}

func testWrongPasswordThenDelete(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.creds.Password = "certainly-wrong"
	b.state(metal3v1alpha1.StateRegistering)
	b.fails("register with a wrong password", validate(true))
	b.state(metal3v1alpha1.StateDeleting)
	b.creds = bmc.Credentials{}
	b.done("delete", remove)
}

func testBadAddress(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	for _, address := range []string{"", "gopher://192.0.2.1", "redfish://192.0.2.1:99999"} {
		b.host.Spec.BMC.Address = address
		_, err := b.factory(b.host, b.creds, b.publish)
		if !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotSupported) {
			t.Errorf("factory with address %q: %v, want NotValid or NotSupported", address, err)
		}
	}
}

func testNotRegistered(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.host.Spec.Image = &backend.Good
	for what, c := range map[string]call{
		"adopt": adopt, "provision": provision(&configData{}), "deprovision": deprovision, "power on": powerOn, "power off": powerOff,
	} {
		if _, err := c(b.provisioner()); !errors.Is(err, provisioner.ErrNotRegistered) {
			t.Errorf("%s of an unknown host: %v, want ErrNotRegistered", what, err)
		}
	}
	b.done("delete of an unknown host", remove)
}

func testInspect(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.register()
	d := b.inspect()
	if d.CPU.Count <= 0 || d.CPU.Arch == "" || d.RAMMebibytes <= 0 || len(d.NIC) == 0 || len(d.Storage) == 0 {
		t.Fatalf("details lack the essentials: %+v", d)
	}
	for _, n := range d.NIC {
		if n.MAC == "" {
			t.Errorf("interface %s has no MAC address", n.Name)
		}
	}
	for _, s := range d.Storage {
		if s.Name == "" || s.SizeBytes <= 0 {
			t.Errorf("disk %+v lacks a name or a size", s)
		}
	}
	if b.count("InspectionStarted") != 1 || b.count("InspectionComplete") != 1 {
		t.Errorf("events %v", b.events)
	}
}

func testPower(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.done("read power", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.UpdateHardwareState() })
	b.done("power off", powerOff)
	b.checkPower(false)
	b.done("power on", powerOn)
	b.checkPower(true)
	b.done("power on again", powerOn)
	b.done("read power", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.UpdateHardwareState() })
	if !b.host.Status.PoweredOn {
		t.Error("the record does not say that the host is on")
	}
	b.done("power off", powerOff)
	b.checkPower(false)
	b.done("power off again", powerOff)
	if n := b.count("PowerOn"); n != 1 {
		t.Errorf("%d PowerOn events, want 1", n)
	}
}

func testPowerBehindOurBack(t *testing.T, backend Backend) {
	if backend.SetPower == nil {
		return
	}
	b := newBench(t, backend)
	b.ready()
	b.done("power off", powerOff)
	b.host.Status.PoweredOn = false
	backend.SetPower(b.host, true)
	for n := 0; ; n++ {
		r, err := b.provisioner().UpdateHardwareState()
		if err != nil || r.ErrorMessage != "" {
			t.Fatalf("UpdateHardwareState = %+v, %v", r, err)
		}
		if r.Dirty && b.host.Status.PoweredOn {
			break
		}
		if n > maxCalls {
			t.Fatal("a change of power was never seen")
		}
		b.wait(maxTime / 60)
	}
	if r, err := b.provisioner().UpdateHardwareState(); err != nil || r.Dirty {
		t.Errorf("UpdateHardwareState without a change = %+v, %v, want not dirty", r, err)
	}
}

func testProvision(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.provisionImage(backend.Good)
	b.checkPower(true)
	if b.count("ProvisioningStarted") != 1 || b.count("ProvisioningComplete") != 1 {
		t.Errorf("events %v", b.events)
	}
	n := b.writes()
	b.done("adopt what we provisioned", adopt)
	if b.writes() != n {
		t.Error("adoption wrote to the disk")
	}
	b.deprovisionImage()
	if b.count("DeprovisioningStarted") != 1 || b.count("DeprovisioningComplete") != 1 {
		t.Errorf("events %v", b.events)
	}
	b.provisionImage(backend.Good) // it is as good as new
}

func testConfigData(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.host.Spec.Image = &backend.Good
	b.state(metal3v1alpha1.StateProvisioning)
	data := &configData{err: errors.New("secret is missing")}
	failed := false
	for n := 0; n < maxCalls && !failed; n++ {
		r, err := b.provisioner().Provision(data)
		if err == nil && !r.Dirty {
			t.Fatalf("provisioned without its data: %+v", r)
		}
		failed = err != nil
		b.wait(r.RequeueAfter)
	}
	if !failed {
		t.Fatal("the data was never asked for")
	}
	b.checkImage("")
	good := &configData{user: "x"}
	b.done("provision", provision(good))
	if good.reads == 0 {
		t.Error("the user data was not read")
	}
}

func testProvisionFailure(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.host.Spec.Image = &backend.Bad
	b.state(metal3v1alpha1.StateProvisioning)
	first := b.fails("provision a bad image", provision(&configData{}))
	if second := b.fails("provision it again", provision(&configData{})); second != first {
		t.Errorf("the same image failed with %q, and then with %q", first, second)
	}
	b.host.Status.ErrorType = metal3v1alpha1.ProvisioningError
	b.host.Status.ErrorMessage = first
	b.deprovisionImage()
	b.host.Status.ErrorType, b.host.Status.ErrorMessage = "", ""
	b.provisionImage(backend.Good)
}

func testOtherImage(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.provisionImage(backend.Good)
	b.deprovisionImage()
	b.provisionImage(backend.Other)
}

func testOtherImageAfterFailure(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.host.Spec.Image = &backend.Bad
	b.state(metal3v1alpha1.StateProvisioning)
	b.fails("provision a bad image", provision(&configData{}))
	b.provisionImage(backend.Other)
}

func testDeprovisionMidway(t *testing.T, backend Backend) {
	for calls := 1; calls <= 4; calls++ {
		b := newBench(t, backend)
		b.ready()
		b.host.Spec.Image = &backend.Good
		b.state(metal3v1alpha1.StateProvisioning)
		over := b.some("provision", calls, provision(&configData{}))
		b.deprovisionImage()
		b.provisionImage(backend.Good)
		if over {
			return
		}
	}
}

func testDelete(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.ready()
	b.state(metal3v1alpha1.StateDeleting)
	b.done("delete", remove)
	b.done("delete again", remove)
	b.host.Status.Provisioning.ID = ""
	b.register() // it can come back
}

func testDeleteWhileBusy(t *testing.T, backend Backend) {
	for calls := 1; calls <= 3; calls++ {
		b := newBench(t, backend)
		b.ready()
		b.host.Spec.Image = &backend.Good
		b.state(metal3v1alpha1.StateProvisioning)
		over := b.some("provision", calls, provision(&configData{}))
		b.state(metal3v1alpha1.StateDeleting)
		b.done("delete", remove)
		if over {
			return
		}
	}
}

func testRestart(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.restart = true // nothing may be kept in memory between any two calls
	b.ready()
	b.provisionImage(backend.Good)
	b.done("adopt", adopt)
	b.done("power off", powerOff)
	b.checkPower(false)
	b.done("power on", powerOn)
	b.checkPower(true)
	b.deprovisionImage()
	b.provisionImage(backend.Other)
	b.state(metal3v1alpha1.StateDeleting)
	b.done("delete", remove)
}

func testAdopt(t *testing.T, backend Backend) {
	b := newBench(t, backend)
	b.host.Spec.ExternallyProvisioned = true
	b.register()
	b.state(metal3v1alpha1.StateExternallyProvisioned)
	n := b.writes()
	b.done("adopt", adopt)
	b.done("adopt again", adopt)
	if b.writes() != n {
		t.Error("adoption wrote to the disk")
	}
	b.done("power on", powerOn)
	b.checkPower(true)
	b.state(metal3v1alpha1.StateDeleting)
	b.done("delete", remove)
	if b.writes() != n {
		t.Error("removal of an adopted host wrote to its disk")
	}
	b.checkPower(true)
}

func testLostDatabase(t *testing.T, backend Backend) {
	if backend.Forget == nil {
		return
	}
	b := newBench(t, backend)
	b.ready()
	b.provisionImage(backend.Good)
	n := b.writes()
	backend.Forget()
	if _, err := b.provisioner().Adopt(); !errors.Is(err, provisioner.ErrNotRegistered) {
		t.Errorf("Adopt of a forgotten host = %v, want ErrNotRegistered", err)
	}
	b.done("register again", validate(false))
	b.done("adopt", adopt)
	if b.writes() != n {
		t.Error("a host was written to because the back end lost its database")
	}
	b.checkImage(backend.Good.URL)
	b.checkPower(true)
	b.deprovisionImage()

	backend.Forget()
	b.host.Spec.Image = &backend.Good
	b.state(metal3v1alpha1.StateProvisioning)
	b.done("register again", validate(false))
	b.done("provision", provision(&configData{}))
	b.provisioned(backend.Good)
}

func testUnreachable(t *testing.T, backend Backend) {
	if backend.SetReachable == nil {
		return
	}
	b, other := newBench(t, backend), newBench(t, backend)
	b.ready()
	other.ready()
	backend.SetReachable(b.host, false)
	result, err := b.provisioner().PowerOn()
	for n := 0; err == nil && result.ErrorMessage == "" && n < maxCalls; n++ {
		b.wait(result.RequeueAfter)
		result, err = b.provisioner().PowerOn()
	}
	if err == nil && result.ErrorMessage == "" {
		t.Error("the power of an unreachable machine is said to be changing for ever")
	}
	other.done("power on of its neighbour", powerOn)
	other.checkPower(true)
	backend.SetReachable(b.host, true)
	b.host.Status.ErrorType = metal3v1alpha1.PowerManagementError
	b.done("power on once it is back", powerOn)
	b.checkPower(true)
}
