package simulated_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
)

// finish makes a call of a rack until it has succeeded.
func finish(t *testing.T, rack *simulated.Rack, h *metal3v1alpha1.BareMetalHost, call func(p provisioner.Provisioner) (provisioner.Result, error)) {
	t.Helper()
	for {
		p, err := rack.Factory()(h, bmc.Credentials{}, func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		r, err := call(p)
		if err != nil || r.ErrorMessage != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		if !r.Dirty {
			return
		}
		<-time.After(r.RequeueAfter)
	}
}

func register(p provisioner.Provisioner) (provisioner.Result, error) {
	return p.ValidateManagementAccess(false)
}

// A rack that is opened again finds machines as they were, and those that were on run what
// they ran.
func TestMachinesOutliveTheirRack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "metal")
		booted := make(chan string, 10)
		var rack *simulated.Rack
		open := func(want string) {
			t.Helper()
			if rack != nil {
				rack.Close()
			}
			var err error
			rack, err = simulated.Open(dir, simulated.Options{Boot: func(ctx context.Context, host bmc.Address, userData string) {
				booted <- host.String() + " " + userData
				<-ctx.Done()
			}})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := ""
			select {
			case got = <-booted:
			default:
			}
			if got != want || len(booted) > 0 {
				t.Errorf("%q runs, want %q", got, want)
			}
		}
		const running = "simulated://a #cloud-config"
		open("")
		h := new(metal3v1alpha1.BareMetalHost)
		h.Spec.BMC.Address, h.Spec.Image = "simulated://a", &metal3v1alpha1.Image{URL: "http://x/y"}
		finish(t, rack, h, register)
		finish(t, rack, h, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data{}) })
		if synctest.Wait(); <-booted != running {
			t.Error("another image runs")
		}
		h.Status.Provisioning.Image = *h.Spec.Image
		for range 2 {
			open(running)
			finish(t, rack, h, register)
			finish(t, rack, h, provisioner.Provisioner.Adopt)
			if m := rack.Machine(address(t, h)); !m.PoweredOn || m.Image != "http://x/y" {
				t.Errorf("machine = %+v", m)
			}
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("the folder holds %v, %v", files, err)
		}
		if info, err := files[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file with a secret is %v, %v", info.Mode(), err)
		}
		finish(t, rack, h, provisioner.Provisioner.PowerOff)
		open("")
		finish(t, rack, h, register)
		if m := rack.Machine(address(t, h)); m.PoweredOn || m.Image == "" {
			t.Errorf("machine = %+v, want it off with its image", m)
		}
		finish(t, rack, h, provisioner.Provisioner.PowerOn)
		if synctest.Wait(); <-booted != running {
			t.Error("another image runs after it was off")
		}
		open(running)
		finish(t, rack, h, register)
		finish(t, rack, h, provisioner.Provisioner.Deprovision)
		open("")
		if m := rack.Machine(address(t, h)); m != (simulated.Machine{}) {
			t.Errorf("a wiped machine is %+v", m)
		}
		rack.Close()
	})
}

func TestAFolderThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":    `{"user-data": "hush`,
		"no address": `{"address": "gopher://a", "user-data": "hush"}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.machine.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := simulated.Open(dir, simulated.Options{}); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "x.machine.json") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want NotValid that names the file and quotes nothing", name, err)
		}
	}
	if _, err := simulated.Open("/dev/null/x", simulated.Options{}); err == nil {
		t.Error("no folder is one")
	}
}
