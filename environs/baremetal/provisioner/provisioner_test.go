package provisioner_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// documented is the documented method set, spelled out: it and the interface
// must be assignable in both directions, so that a change of either one does not
// compile.
type documented interface {
	ValidateManagementAccess(credentialsChanged bool) (result provisioner.Result, err error)
	InspectHardware() (result provisioner.Result, details *metal3v1alpha1.HardwareDetails, err error)
	UpdateHardwareState() (result provisioner.Result, err error)
	Adopt() (result provisioner.Result, err error)
	Provision(configData provisioner.HostConfigData) (result provisioner.Result, err error)
	Deprovision() (result provisioner.Result, err error)
	Delete() (result provisioner.Result, err error)
	PowerOn() (result provisioner.Result, err error)
	PowerOff() (result provisioner.Result, err error)
}

type documentedData interface {
	UserData() (string, error)
	NetworkData() (string, error)
}

var (
	_ documented                 = provisioner.Provisioner(nil)
	_ provisioner.Provisioner    = documented(nil)
	_ documentedData             = provisioner.HostConfigData(nil)
	_ provisioner.HostConfigData = documentedData(nil)

	_ func(reason, message string)                                                                                                            = provisioner.EventPublisher(nil)
	_ func(host *metal3v1alpha1.BareMetalHost, bmcCreds bmc.Credentials, publish provisioner.EventPublisher) (provisioner.Provisioner, error) = provisioner.Factory(nil)
	_                                                                                                                                         = struct {
		Dirty        bool
		RequeueAfter time.Duration
		ErrorMessage string
	}(provisioner.Result{})
)

func TestProvisionerIsAsDocumented(t *testing.T) {
	if got := reflect.TypeFor[provisioner.Provisioner]().NumMethod(); got != 9 {
		t.Errorf("Provisioner has %d methods, want 9", got)
	}
	if got := reflect.TypeFor[provisioner.Result]().NumField(); got != 3 {
		t.Errorf("Result has %d fields, want 3", got)
	}
}

func TestResults(t *testing.T) {
	if got := provisioner.Again(time.Second); got != (provisioner.Result{Dirty: true, RequeueAfter: time.Second}) {
		t.Errorf("Again = %+v", got)
	}
	if got := provisioner.Failed("x"); got != (provisioner.Result{ErrorMessage: "x"}) {
		t.Errorf("Failed = %+v", got)
	}
	h := new(metal3v1alpha1.BareMetalHost)
	h.Status.ErrorType = metal3v1alpha1.InspectionError
	if !provisioner.IsRetry(h, metal3v1alpha1.InspectionError) || provisioner.IsRetry(h, metal3v1alpha1.ProvisioningError) {
		t.Error("IsRetry mixes the kinds up")
	}
}
