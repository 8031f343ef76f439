package simulated_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
)

// data is what a host is configured with.
type data struct{}

func (data) UserData() (string, error)    { return "#cloud-config", nil }
func (data) NetworkData() (string, error) { return "", nil }

// A machine runs its image while it is on, and says how far the writing has come.
func TestAMachineThatIsOnRunsItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		booted, halted := make(chan string, 10), make(chan struct{}, 10)
		rack := simulated.New(simulated.Options{
			Delays: map[simulated.Op]time.Duration{simulated.OpProvision: 100 * time.Second},
			Boot: func(ctx context.Context, host bmc.Address, userData string) {
				booted <- host.Host + " " + userData
				<-ctx.Done()
				halted <- struct{}{}
			},
		})
		h := new(metal3v1alpha1.BareMetalHost)
		h.Spec.BMC.Address, h.Spec.Image = "simulated://a", &metal3v1alpha1.Image{URL: "http://x/y"}
		var progress []string
		do := func(call func(p provisioner.Provisioner) (provisioner.Result, error)) {
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
				progress = append(progress, p.(provisioner.ProgressTeller).Progress())
				<-time.After(r.RequeueAfter)
			}
		}
		runs := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-booted:
				if got != want {
					t.Errorf("%q runs, want %q", got, want)
				}
			default:
				if want != "" {
					t.Errorf("nothing runs, want %q", want)
				}
			}
		}
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.ValidateManagementAccess(false) })
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOn() })
		runs("") // it has no image yet
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data{}) })
		runs("a #cloud-config")
		if !slices.Contains(progress, "writing image 0 %") || !slices.Contains(progress, "writing image 90 %") || len(progress) != 10 {
			t.Errorf("progress = %q", progress)
		}
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOff() })
		<-halted
		runs("")
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.PowerOn() })
		runs("a #cloud-config")
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Deprovision() })
		<-halted
		do(func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data{}) })
		runs("a #cloud-config")
		rack.Close()
		<-halted
	})
}
