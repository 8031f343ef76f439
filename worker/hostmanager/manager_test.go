package hostmanager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/hostmanager/hostmanagertest"
)

type (
	host   = metal3v1alpha1.BareMetalHost
	record = hostmanager.Record
)

// bubble runs a test on a fake clock, with one host "a" on a scripted back end.
func bubble(t *testing.T, b *script, change func(*host), f func(*hostmanagertest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := hostmanagertest.New()
		s.Add("a", change)
		stop := start(t, hostmanager.Config{Store: s, Factory: b.factory, Random: func() float64 { return 0 }})
		defer stop()
		f(s)
	})
}

func withImage(h *host) { h.Spec.Image = &metal3v1alpha1.Image{URL: "one"} }

func TestWholeLife(t *testing.T) {
	b := new(script)
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
		synctest.Wait()
		r, _ := s.Get("a")
		if st := r.Host.Status; st.Provisioning.Image.URL != "one" || st.OperationalStatus != metal3v1alpha1.OperationalStatusOK || st.HardwareDetails == nil || st.HardwareProfile != "unknown" {
			t.Errorf("status %+v", st)
		}
		s.SetImage("a", "two")
		eventually(t, time.Minute, "the other image", func() bool { r, _ := s.Get("a"); return r.Host.Status.Provisioning.Image.URL == "two" })
		s.AskRemoval("a", false)
		eventually(t, time.Minute, "removal", func() bool { _, ok := s.Get("a"); return !ok })
		want := "[registering inspecting match profile ready provisioning provisioned deprovisioning ready provisioning provisioned deprovisioning deleting]"
		if got := fmt.Sprint(s.States("a")); got != want {
			t.Errorf("states %s\nwant   %s", got, want)
		}
		if b.count("validate changed") != 1 || b.count("provision") != 2 || b.count("deprovision") != 2 || b.count("delete") != 1 {
			t.Errorf("calls %v", b.all())
		}
	})
}

func TestAHostWithoutBMCIsDiscovered(t *testing.T) {
	bubble(t, new(script), func(h *host) { h.Spec.BMC.Address = "" }, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "unmanaged", func() bool { return s.In("a", metal3v1alpha1.StateUnmanaged) })
		r, _ := s.Get("a")
		if r.Host.Status.OperationalStatus != metal3v1alpha1.OperationalStatusDiscovered || r.Progress.Owner != hostmanager.OwnerOperator {
			t.Error(s.Show("a"))
		}
		s.Change("a", func(r *record) { r.Host.Spec.BMC.Address = "simulated://a" })
		eventually(t, time.Minute, "ready", func() bool { return s.In("a", metal3v1alpha1.StateReady) })
	})
}

func TestFailuresBackOff(t *testing.T) {
	b := &script{inspect: verdict("disk controller on fire")}
	bubble(t, b, nil, func(s *hostmanagertest.Store) {
		begin, last := time.Now(), 0
		for _, after := range []time.Duration{0, 2, 2 + 4, 2 + 4 + 8, 2 + 4 + 8 + 16} { // minutes, without jitter
			<-time.After(time.Until(begin.Add(after*time.Minute + time.Second)))
			synctest.Wait()
			last++
			r, _ := s.Get("a")
			if r.Host.Status.ErrorCount != last || r.Host.Status.ErrorType != metal3v1alpha1.InspectionError || r.Host.Status.ErrorMessage != "disk controller on fire" {
				t.Fatalf("after %d min: %s", after, s.Show("a"))
			}
			wait := time.Minute << last
			if left := time.Until(r.Progress.NextTry); left > wait || left < wait-2*time.Second {
				t.Errorf("next try in %v, want %v", left, wait)
			}
		}
		b.mu.Lock()
		b.inspect = nil
		b.mu.Unlock()
		s.Change("a", func(r *record) { r.Retries++ })
		synctest.Wait()
		<-time.After(time.Second)
		if !s.In("a", metal3v1alpha1.StateReady) {
			t.Error("a retry on request did not come at once: " + s.Show("a"))
		}
		if r, _ := s.Get("a"); r.Host.Status.ErrorCount != 0 || r.Host.Status.ErrorMessage != "" || r.Host.Status.OperationalStatus != metal3v1alpha1.OperationalStatusOK {
			t.Error(s.Show("a"))
		}
	})
}

func TestFaultsOfTheNetworkAreNoVerdict(t *testing.T) {
	b := &script{validate: broken}
	bubble(t, b, nil, func(s *hostmanagertest.Store) {
		<-time.After(10 * time.Minute)
		r, _ := s.Get("a")
		if r.Host.Status.ErrorCount != 0 || !strings.Contains(r.Progress.Reason, "no route to host") || r.Progress.Faults < 5 || r.Progress.Deadline.IsZero() {
			t.Error(s.Show("a"))
		}
		<-time.After(30 * time.Minute)
		if r, _ := s.Get("a"); r.Host.Status.ErrorType != metal3v1alpha1.RegistrationError || !strings.Contains(r.Host.Status.ErrorMessage, "after 30m0s still waiting for the BMC to be verified") {
			t.Error("the deadline passed without an error: " + s.Show("a"))
		}
		b.mu.Lock()
		b.validate = nil
		b.mu.Unlock()
		eventually(t, 2*time.Hour, "recovery", func() bool { return s.In("a", metal3v1alpha1.StateReady) })
	})
}

func TestAProvisionedHostIsNeverWipedByAnError(t *testing.T) {
	b := new(script)
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
		for _, f := range []*func(context.Context) (provisioner.Result, error){&b.validate, &b.adopt, &b.power} {
			for _, answer := range []func(context.Context) (provisioner.Result, error){verdict("no"), broken, dirty(time.Second)} {
				b.mu.Lock()
				*f = answer
				b.on = false // so that power is wanted
				b.mu.Unlock()
				<-time.After(3 * time.Hour)
				b.mu.Lock()
				*f = nil
				b.mu.Unlock()
				s.Change("a", func(r *record) { r.Retries++ })
				<-time.After(2 * time.Minute)
				if r, _ := s.Get("a"); !s.In("a", metal3v1alpha1.StateProvisioned) || r.Host.Status.ErrorMessage != "" || !r.Host.Status.PoweredOn {
					t.Fatal(s.Show("a"))
				}
			}
		}
		if n := b.count("deprovision"); n != 0 {
			t.Errorf("%d calls of Deprovision", n)
		}
	})
}

func TestTheStepOfAnInstallationAndWhatItFoundAreTold(t *testing.T) {
	b := &script{provision: dirty(time.Second), step: "stream-image (21 of 37) done", details: &metal3v1alpha1.HardwareDetails{
		RAMMebibytes: 2048, CPU: metal3v1alpha1.CPU{Count: 4, Arch: "x86_64"}, Storage: []metal3v1alpha1.Storage{{Name: "/dev/vda"}},
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: "Acme"},
	}}
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "the step in the reason", func() bool {
			r, _ := s.Get("a")
			return r.Progress.Reason == "the image to be written (stream-image (21 of 37) done)"
		})
		b.mu.Lock()
		b.provision = nil
		b.mu.Unlock()
		eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
		r, _ := s.Get("a")
		if d := r.Host.Status.HardwareDetails; d == nil || d.RAMMebibytes != 2048 || d.CPU.Count != 4 || len(d.Storage) != 1 || d.SystemVendor.Manufacturer != "Acme" {
			t.Errorf("hardware: %+v", d)
		}
	})
}

func TestProvisioningIsTriedSoOftenAndNoMore(t *testing.T) {
	b := &script{provision: verdict("checksum is wrong")}
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		<-time.After(5 * 24 * time.Hour)
		r, _ := s.Get("a")
		if n := b.count("provision"); n != hostmanager.MaxProvisioningFailures || r.Progress.Owner != hostmanager.OwnerOperator || r.Host.Status.ErrorMessage != "checksum is wrong" ||
			r.Host.Status.Provisioning.State != metal3v1alpha1.StateProvisioning {
			t.Fatalf("%d tries: %s", n, s.Show("a"))
		}
		b.mu.Lock()
		b.provision = nil
		b.mu.Unlock()
		s.Change("a", func(r *record) { r.Retries++ })
		eventually(t, time.Minute, "provisioned after a retry", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
	})
}

func TestAnotherImageIsANewTry(t *testing.T) {
	b := &script{provision: verdict("checksum is wrong")}
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		<-time.After(5 * 24 * time.Hour)
		b.mu.Lock()
		b.provision = nil
		b.mu.Unlock()
		s.SetImage("a", "two")
		eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
	})
}

func TestCancelledProvisioning(t *testing.T) {
	for name, cancel := range map[string]func(*record){
		"no image":      func(r *record) { r.Host.Spec.Image = nil },
		"another image": func(r *record) { r.Host.Spec.Image = &metal3v1alpha1.Image{URL: "two"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := &script{provision: dirty(time.Second)}
			bubble(t, b, withImage, func(s *hostmanagertest.Store) {
				<-time.After(10 * time.Second)
				b.mu.Lock()
				b.provision = nil
				b.mu.Unlock()
				s.Change("a", cancel)
				<-time.After(10 * time.Second)
				if b.count("deprovision") != 1 || s.In("a", metal3v1alpha1.StateProvisioning) || s.In("a", metal3v1alpha1.StateDeprovisioning) {
					t.Error(s.Show("a"))
				}
			})
		})
	}
}

func TestExternallyProvisioned(t *testing.T) {
	b := new(script)
	bubble(t, b, func(h *host) { h.Spec.ExternallyProvisioned = true }, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "externally provisioned", func() bool { return s.In("a", metal3v1alpha1.StateExternallyProvisioned) })
		<-time.After(5 * time.Minute)
		if b.count("adopt") == 0 || b.count("inspect") != 0 {
			t.Errorf("calls %v", b.all())
		}
		s.Change("a", func(r *record) { r.Host.Spec.ExternallyProvisioned = false })
		eventually(t, time.Minute, "ready", func() bool { return s.In("a", metal3v1alpha1.StateReady) })
		if b.count("inspect") != 1 || b.count("deprovision") != 0 {
			t.Errorf("calls %v", b.all())
		}
		s.AskRemoval("a", false)
		eventually(t, time.Minute, "removal", func() bool { _, ok := s.Get("a"); return !ok })
		if b.count("deprovision") != 0 {
			t.Error("a host without image was deprovisioned on removal")
		}
	})
}

func TestPaused(t *testing.T) {
	b := new(script)
	bubble(t, b, func(h *host) { h.Metadata.Annotations = map[string]string{metal3v1alpha1.PausedAnnotation: ""} }, func(s *hostmanagertest.Store) {
		<-time.After(time.Hour)
		s.AskRemoval("a", false)
		<-time.After(time.Hour)
		if r, ok := s.Get("a"); !ok || len(b.all()) != 0 || !strings.Contains(r.Progress.Reason, "maintenance") {
			t.Errorf("calls %v; %s", b.all(), s.Show("a"))
		}
		s.Change("a", func(r *record) { r.Host.Metadata.Annotations = nil })
		eventually(t, time.Minute, "removal", func() bool { _, ok := s.Get("a"); return !ok })
	})
}

func TestReboot(t *testing.T) {
	b := new(script)
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
		<-time.After(2 * time.Minute)
		s.Change("a", func(r *record) { r.Host.Metadata.Annotations = map[string]string{"reboot.metal3.io": ""} })
		<-time.After(2 * time.Minute)
		if r, _ := s.Get("a"); b.count("off") != 1 || b.count("on") != 2 || len(r.Host.Metadata.Annotations) != 0 {
			t.Errorf("calls %v, annotations %v", b.all(), r.Host.Metadata.Annotations)
		}
		s.Change("a", func(r *record) {
			r.Host.Metadata.Annotations = map[string]string{"reboot.metal3.io": `{"mode":"hard"}`}
		})
		<-time.After(2 * time.Minute)
		if b.count("off hard") != 1 || b.count("on") != 3 {
			t.Errorf("a hard reboot: calls %v", b.all())
		}
		s.Change("a", func(r *record) { r.Host.Metadata.Annotations = map[string]string{"reboot.metal3.io/hold": ""} })
		<-time.After(time.Hour)
		if r, _ := s.Get("a"); b.count("off") != 2 || b.count("on") != 3 || r.Host.Status.PoweredOn {
			t.Errorf("a host that is held is on: calls %v", b.all())
		}
		s.Change("a", func(r *record) { r.Host.Metadata.Annotations = nil })
		<-time.After(2 * time.Minute)
		if r, _ := s.Get("a"); b.count("on") != 4 || !r.Host.Status.PoweredOn {
			t.Errorf("a host that is no longer held is off: calls %v", b.all())
		}
	})
}

func TestPowerFollowsTheSpec(t *testing.T) {
	b := new(script)
	bubble(t, b, func(h *host) { h.Spec.Online = false }, func(s *hostmanagertest.Store) {
		<-time.After(2 * time.Minute)
		b.mu.Lock()
		b.on = true // somebody pressed the button
		b.mu.Unlock()
		<-time.After(2 * time.Minute)
		if r, _ := s.Get("a"); b.count("off") != 1 || r.Host.Status.PoweredOn {
			t.Errorf("calls %v", b.all())
		}
	})
}

func TestCredentials(t *testing.T) {
	b := &script{validate: verdict("wrong password")}
	bubble(t, b, nil, func(s *hostmanagertest.Store) {
		<-time.After(time.Second)
		r, _ := s.Get("a")
		if r.Host.Status.ErrorType != metal3v1alpha1.RegistrationError || r.Host.Status.TriedCredentials.Version != "1" || r.Host.Status.GoodCredentials.Version != "" {
			t.Fatal(s.Show("a"))
		}
		s.Change("a", func(r *record) { r.Credentials = bmc.Credentials{Username: "u"} })
		<-time.After(time.Second)
		if r, _ := s.Get("a"); r.Host.Status.ErrorMessage != "BMC credentials without password" {
			t.Error(s.Show("a"))
		}
		b.mu.Lock()
		b.validate = nil
		b.mu.Unlock()
		s.Change("a", func(r *record) {
			r.Credentials, r.CredentialsVersion = bmc.Credentials{Username: "u", Password: "q"}, "2"
		})
		<-time.After(time.Second)
		if r, _ := s.Get("a"); !s.In("a", metal3v1alpha1.StateReady) || r.Host.Status.GoodCredentials.Version != "2" || r.Host.Status.ErrorMessage != "" {
			t.Error(s.Show("a"))
		}
		if n := b.count("validate changed"); n != 2 {
			t.Errorf("credentials were said to have changed %d times, want 2", n)
		}
	})
}

func TestAPanicOfABackEndIsAnErrorOfItsHost(t *testing.T) {
	b := &script{inspect: func(context.Context) (provisioner.Result, error) { panic("index out of range") }}
	bubble(t, b, nil, func(s *hostmanagertest.Store) {
		s.Add("b", withImage)
		<-time.After(time.Second)
		if r, _ := s.Get("a"); r.Host.Status.ErrorType != metal3v1alpha1.InspectionError || !strings.Contains(r.Host.Status.ErrorMessage, "a mistake of its own") {
			t.Error(s.Show("a"))
		}
		b.mu.Lock()
		b.inspect = nil
		b.mu.Unlock()
		eventually(t, 10*time.Minute, "recovery", func() bool {
			return s.In("a", metal3v1alpha1.StateReady) && s.In("b", metal3v1alpha1.StateProvisioned)
		})
	})
}

func TestBadAddress(t *testing.T) {
	bubble(t, new(script), func(h *host) { h.Spec.BMC.Address = "bad" }, func(s *hostmanagertest.Store) {
		<-time.After(time.Second)
		if r, _ := s.Get("a"); !strings.Contains(r.Host.Status.ErrorMessage, `BMC address "bad"`) {
			t.Error(s.Show("a"))
		}
		s.AskRemoval("a", false)
		eventually(t, time.Minute, "removal", func() bool { _, ok := s.Get("a"); return !ok })
	})
}

func TestRemovalEnds(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(context.Context) (provisioner.Result, error)
		limit  time.Duration
	}{
		"verdicts": {verdict("no"), 2 * time.Hour},
		"faults":   {broken, 24 * time.Hour},
		"no end":   {dirty(10 * time.Second), 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := new(script)
			bubble(t, b, withImage, func(s *hostmanagertest.Store) {
				eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
				b.mu.Lock()
				b.deprovision, b.remove = c.answer, c.answer
				b.mu.Unlock()
				s.AskRemoval("a", false)
				eventually(t, c.limit, "removal", func() bool { _, ok := s.Get("a"); return !ok })
				if !slices.Contains(s.Events("a"), "RemovedWithoutBackend") {
					t.Errorf("events %v", s.Events("a"))
				}
			})
		})
	}
}

func TestRemovalByForceTakesUnderAMinute(t *testing.T) {
	for name, answer := range map[string]func(context.Context) (provisioner.Result, error){
		"verdicts": verdict("no"), "faults": broken, "no end": dirty(10 * time.Minute), "a call that hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			b := new(script)
			bubble(t, b, withImage, func(s *hostmanagertest.Store) {
				eventually(t, time.Minute, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
				b.mu.Lock()
				b.validate, b.adopt, b.deprovision, b.remove = answer, answer, answer, answer
				b.mu.Unlock()
				<-time.After(10 * time.Minute)
				s.AskRemoval("a", true)
				eventually(t, time.Minute, "removal: "+s.Show("a"), func() bool { _, ok := s.Get("a"); return !ok })
				if b.count("deprovision") != 0 {
					t.Error("a removal by force deprovisioned the host first")
				}
			})
		})
	}
}

func TestOneHungBMCDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, good, bad := hostmanagertest.New(), new(script), &script{validate: hang, inspect: hang, provision: hang}
		for n := range 50 {
			s.Add(fmt.Sprintf("h%d", n), withImage)
		}
		factory := func(ctx context.Context) provisioner.Factory {
			return func(h *host, c bmc.Credentials, p provisioner.EventPublisher) (provisioner.Provisioner, error) {
				if h.Metadata.Name == "h7" {
					return bad.factory(ctx)(h, c, p)
				}
				return good.factory(ctx)(h, c, p)
			}
		}
		defer start(t, hostmanager.Config{Store: s, Factory: factory})()
		begin := time.Now()
		eventually(t, time.Minute, "all others", func() bool {
			for n := range 50 {
				if n != 7 && !s.In(fmt.Sprintf("h%d", n), metal3v1alpha1.StateProvisioned) {
					return false
				}
			}
			return true
		})
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hostmanagertest.New()
		rack := simulated.New(simulated.Options{Delays: map[simulated.Op]time.Duration{simulated.OpProvision: 10 * time.Minute}})
		for n := range 7 {
			s.Add(fmt.Sprintf("h%d", n), withImage)
		}
		defer start(t, hostmanager.Config{Store: s, Slots: 2, Factory: func(context.Context) provisioner.Factory { return rack.Factory() }})()
		look := func() (working, places []int, done int) {
			for n := range 7 {
				r, _ := s.Get(fmt.Sprintf("h%d", n))
				switch {
				case r.Host.Status.Provisioning.State == metal3v1alpha1.StateProvisioned:
					done++
				case r.Progress.Place > 0:
					places = append(places, r.Progress.Place)
					if r.Progress.Owner != hostmanager.OwnerQueue || r.Host.Status.OperationalStatus != metal3v1alpha1.OperationalStatusDelayed {
						t.Error(s.Show(r.ID))
					}
				default:
					working = append(working, n)
				}
			}
			slices.Sort(places)
			return working, places, done
		}
		for _, want := range []string{"2 [1 2 3 4 5] 0", "2 [1 2 3] 2", "2 [1] 4", "1 [] 6", "0 [] 7"} {
			<-time.After(time.Minute)
			synctest.Wait()
			w, p, d := look()
			if got := fmt.Sprintf("%d %v %d", len(w), p, d); got != want {
				t.Errorf("at work, places, done: %s, want %s", got, want)
			}
			<-time.After(9*time.Minute + 10*time.Second)
		}
	})
}

func TestForeignIntentsAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := hostmanagertest.New(), new(script)
		s.Add("a", nil)
		until := time.Now().Add(3 * time.Minute)
		s.Change("a", func(r *record) { r.ForeignUntil = until })
		defer start(t, hostmanager.Config{Store: s, Factory: b.factory})()
		<-time.After(2*time.Minute + 50*time.Second)
		if len(b.all()) != 0 {
			t.Errorf("acted while another manager may: %v", b.all())
		}
		eventually(t, time.Minute, "ready", func() bool { return s.In("a", metal3v1alpha1.StateReady) })
	})
}

// TestIntentsAreTakenBack ends managers whose last call was answered, was broken
// off by the end, or had failed before.
func TestIntentsAreTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(context.Context) (provisioner.Result, error)
		stays  bool
	}{
		"answered":         {nil, false},
		"still under way":  {dirty(time.Hour), false},
		"broken off":       {hang, true},
		"failed":           {broken, true},
		"refused by a BMC": {verdict("no"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := hostmanagertest.New(), &script{provision: c.answer}
				s.Add("a", withImage)
				stop := start(t, hostmanager.Config{Store: s, Factory: b.factory})
				eventually(t, time.Minute, "the call", func() bool { return b.count("provision") > 0 })
				synctest.Wait()
				if !s.Intent("a").After(time.Now()) {
					t.Errorf("acts without an intent, the last of which was until %v", s.Intent("a"))
				}
				stop()
				if s.Intent("a").After(time.Now()) != c.stays {
					t.Errorf("the intent lasts for %v more, want it to stay: %v", time.Until(s.Intent("a")), c.stays)
				}
			})
		})
	}
}

// TestIntentsThatCannotBeTakenBack do not hold up the end.
func TestIntentsThatCannotBeTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := hostmanagertest.New(), new(script)
		s.Add("a", withImage)
		stop := start(t, hostmanager.Config{Store: s, Factory: b.factory})
		eventually(t, time.Minute, "the call", func() bool { return b.count("provision") > 0 })
		synctest.Wait()
		s.FailWith(func(string) error { return errors.New("connection lost") })
		stop()
		if !s.Intent("a").After(time.Now()) {
			t.Error("the intent has gone all the same")
		}
	})
}

func TestAnotherOwnerStopsTheManager(t *testing.T) {
	for _, what := range []string{"intend", "save"} {
		synctest.Test(t, func(t *testing.T) {
			s, b := hostmanagertest.New(), new(script)
			s.Add("a", withImage)
			s.FailWith(func(w string) error {
				if w == what {
					return errors.Annotate(hostmanager.ErrNotOwner, "lease lost")
				}
				return nil
			})
			m, err := hostmanager.New(hostmanager.Config{Store: s, Factory: b.factory})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Wait(); !errors.Is(err, hostmanager.ErrNotOwner) {
				t.Errorf("%s: Wait = %v, want ErrNotOwner", what, err)
			}
			if b.count("inspect") != 0 {
				t.Errorf("%s: acted without owning the host: %v", what, b.all())
			}
		})
	}
}

func TestNothingIsLostWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := hostmanagertest.New(), new(script)
		rnd := rand.New(rand.NewPCG(1, 2))
		s.FailWith(func(what string) error {
			if (what == "save" || what == "remove" || what == "intend") && rnd.IntN(3) == 0 {
				return errors.New("disk full")
			}
			return nil
		})
		s.Add("a", withImage)
		defer start(t, hostmanager.Config{Store: s, Factory: b.factory})()
		eventually(t, time.Hour, "provisioned", func() bool { return s.In("a", metal3v1alpha1.StateProvisioned) })
		if n := b.count("provision"); n != 1 {
			t.Errorf("provisioned %d times", n)
		}
		s.AskRemoval("a", false)
		eventually(t, time.Hour, "removal", func() bool { _, ok := s.Get("a"); return !ok })
	})
}

func TestAFailedWatchEndsTheManager(t *testing.T) {
	s, b := hostmanagertest.New(), new(script)
	s.FailWith(func(what string) error { return errors.New(what + " fails") })
	m, err := hostmanager.New(hostmanager.Config{Store: s, Factory: b.factory})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(); err == nil || !strings.Contains(err.Error(), "cannot watch hosts: watch fails") {
		t.Errorf("Wait = %v", err)
	}
}

func TestSteadyHostsAreNotSaved(t *testing.T) {
	b := new(script)
	bubble(t, b, withImage, func(s *hostmanagertest.Store) {
		<-time.After(10 * time.Minute)
		saves := s.Saves()
		<-time.After(10 * time.Hour)
		if s.Saves() != saves {
			t.Errorf("%d saves of a host that does not change", s.Saves()-saves)
		}
		if n := b.count("adopt"); n < 590 || n > 700 {
			t.Errorf("%d looks in ten hours, want one each minute", n)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	b := new(script)
	for name, c := range map[string]hostmanager.Config{
		"no store": {Factory: b.factory}, "no factory": {Store: hostmanagertest.New()}, "slots": {Store: hostmanagertest.New(), Factory: b.factory, Slots: -1},
	} {
		if _, err := hostmanager.New(c); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: %v, want NotValid", name, err)
		}
	}
}

func TestByFamily(t *testing.T) {
	mine := func(name string) provisioner.Factory {
		return func(*host, bmc.Credentials, provisioner.EventPublisher) (provisioner.Provisioner, error) {
			return nil, errors.New(name)
		}
	}
	f := hostmanager.ByFamily(map[bmc.Family]provisioner.Factory{bmc.FamilyRedfish: mine("redfish")}, mine("ironic"))
	none := hostmanager.ByFamily(nil, nil)
	for _, c := range []struct {
		factory       provisioner.Factory
		address, want string
	}{
		{f, "redfish://h", "redfish"}, {f, "idrac-virtualmedia://h", "redfish"}, {f, "ipmi://h", "ironic"},
		{f, "x://h", "unknown scheme"}, {none, "ipmi://h", "no back end for BMCs of type ipmi"},
	} {
		h := new(host)
		h.Spec.BMC.Address = c.address
		if _, err := c.factory(h, bmc.Credentials{}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.address, err, c.want)
		}
	}
}
