package provisionertest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// Bounds on one operation: whichever is met first fails the test.
const (
	maxCalls = 2000
	maxTime  = 5 * time.Minute
)

// bench is one host on the workbench.
type bench struct {
	t       *testing.T
	backend Backend
	factory provisioner.Factory
	host    *metal3v1alpha1.BareMetalHost
	creds   bmc.Credentials
	restart bool // make a new factory for every call

	mu     sync.Mutex
	events []string
}

// newBench takes a new machine from the back end.
func newBench(t *testing.T, b Backend) *bench {
	t.Helper()
	host, creds := b.NewHost()
	host.Spec.Online = true
	return &bench{t: t, backend: b, factory: b.Factory(), host: host, creds: creds}
}

// publish keeps an event's reason.
func (b *bench) publish(reason, _ string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, reason)
}

// count returns how often an event with that reason was published.
func (b *bench) count(reason string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events {
		if e == reason {
			n++
		}
	}
	return n
}

// provisioner makes the Provisioner for one call.
func (b *bench) provisioner() provisioner.Provisioner {
	b.t.Helper()
	if b.restart {
		b.factory = b.backend.Factory()
	}
	p, err := b.factory(b.host, b.creds, b.publish)
	if err != nil {
		b.t.Fatalf("factory: %v", err)
	}
	return p
}

// call is one method of a Provisioner.
type call func(provisioner.Provisioner) (provisioner.Result, error)

// The calls, as values.
func validate(changed bool) call {
	return func(p provisioner.Provisioner) (provisioner.Result, error) {
		first := changed
		changed = false // from then on they are those of the last call
		return p.ValidateManagementAccess(first)
	}
}
func provision(data provisioner.HostConfigData) call {
	return func(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data) }
}
func deprovision(p provisioner.Provisioner) (provisioner.Result, error) { return p.Deprovision() }
func remove(p provisioner.Provisioner) (provisioner.Result, error)      { return p.Delete() }
func adopt(p provisioner.Provisioner) (provisioner.Result, error)       { return p.Adopt() }
func powerOn(p provisioner.Provisioner) (provisioner.Result, error)     { return p.PowerOn() }
func powerOff(p provisioner.Provisioner) (provisioner.Result, error)    { return p.PowerOff() }

// wait is what passes between two calls.
func (b *bench) wait(d time.Duration) {
	if b.backend.Wait != nil {
		b.backend.Wait(d)
		return
	}
	if d /= 100; d > 0 {
		<-time.After(min(d, 20*time.Millisecond))
	}
}

// finish calls until the operation is done or failed, and returns the last
// Result. An error, and no end, fail the test.
func (b *bench) finish(what string, c call) provisioner.Result {
	b.t.Helper()
	end := time.Now().Add(maxTime)
	for n := 0; n < maxCalls && time.Now().Before(end); n++ {
		result, err := c(b.provisioner())
		if err != nil {
			b.t.Fatalf("%s: call %d: %v", what, n+1, err)
		}
		if result.ErrorMessage != "" {
			b.checkLine(what, result.ErrorMessage)
			return result
		}
		if !result.Dirty {
			return result
		}
		b.wait(result.RequeueAfter)
	}
	b.t.Fatalf("%s: no end after %d calls or %v", what, maxCalls, maxTime)
	return provisioner.Result{}
}

// done is finish for an operation that must succeed.
func (b *bench) done(what string, c call) {
	b.t.Helper()
	if r := b.finish(what, c); r.ErrorMessage != "" {
		b.t.Fatalf("%s failed: %s", what, r.ErrorMessage)
	}
}

// fails is finish for an operation that must fail; it returns the message.
func (b *bench) fails(what string, c call) string {
	b.t.Helper()
	r := b.finish(what, c)
	if r.ErrorMessage == "" {
		b.t.Fatalf("%s succeeded, want an ErrorMessage", what)
	}
	return r.ErrorMessage
}

// some makes at most n calls and reports whether the operation is over.
func (b *bench) some(what string, n int, c call) bool {
	b.t.Helper()
	for range n {
		result, err := c(b.provisioner())
		if err != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
		if !result.Dirty {
			return true
		}
		b.wait(result.RequeueAfter)
	}
	return false
}

// checkLine checks that a message is one line that tells no secret.
func (b *bench) checkLine(what, message string) {
	b.t.Helper()
	if strings.ContainsAny(message, "\n\r") || len(message) > 1000 {
		b.t.Errorf("%s: the message is not one clear line: %q", what, message)
	}
	if b.creds.Password != "" && strings.Contains(message, b.creds.Password) {
		b.t.Errorf("%s: the message tells the password", what)
	}
}

// state writes the host's state, as the host manager would.
func (b *bench) state(s metal3v1alpha1.ProvisioningState) {
	b.host.Status.Provisioning.State = s
	if s == metal3v1alpha1.StateInspecting || s == metal3v1alpha1.StateProvisioning {
		b.host.Status.Provisioning.BootMode = b.host.EffectiveBootMode()
	}
	if s == metal3v1alpha1.StateProvisioning {
		b.host.Status.Provisioning.RootDeviceHints = b.host.EffectiveHints()
	}
}

// register registers the host.
func (b *bench) register() {
	b.t.Helper()
	b.state(metal3v1alpha1.StateRegistering)
	b.done("register", validate(true))
}

// inspect inspects the host, and notes the details.
func (b *bench) inspect() *metal3v1alpha1.HardwareDetails {
	b.t.Helper()
	b.state(metal3v1alpha1.StateInspecting)
	var details *metal3v1alpha1.HardwareDetails
	b.done("inspect", func(p provisioner.Provisioner) (provisioner.Result, error) {
		r, d, err := p.InspectHardware()
		if d != nil {
			details = d
		}
		return r, err
	})
	if details == nil {
		b.t.Fatal("inspection ended without details")
	}
	b.host.Status.HardwareDetails = details
	b.state(metal3v1alpha1.StateReady)
	return details
}

// ready registers and inspects the host.
func (b *bench) ready() {
	b.t.Helper()
	b.register()
	b.inspect()
}

// provisionImage provisions an image and notes it.
func (b *bench) provisionImage(image metal3v1alpha1.Image) {
	b.t.Helper()
	b.host.Spec.Image = &image
	b.state(metal3v1alpha1.StateProvisioning)
	b.done("provision "+image.URL, provision(&configData{user: "#cloud-config\n"}))
	b.provisioned(image)
}

// provisioned notes that the host carries image, and checks that it does.
func (b *bench) provisioned(image metal3v1alpha1.Image) {
	b.t.Helper()
	b.host.Status.Provisioning.Image = image
	b.state(metal3v1alpha1.StateProvisioned)
	b.checkImage(image.URL)
}

// deprovisionImage takes the image away again.
func (b *bench) deprovisionImage() {
	b.t.Helper()
	b.state(metal3v1alpha1.StateDeprovisioning)
	b.done("deprovision", deprovision)
	b.host.Status.Provisioning.Image = metal3v1alpha1.Image{}
	b.host.Status.Provisioning.RootDeviceHints = nil
	b.state(metal3v1alpha1.StateReady)
	b.checkImage("")
}

// checkImage checks what is on the disk.
func (b *bench) checkImage(want string) {
	b.t.Helper()
	if b.backend.Image == nil {
		return
	}
	if got := b.backend.Image(b.host); got != want {
		b.t.Errorf("image on disk %q, want %q", got, want)
	}
}

// checkPower checks the real power state.
func (b *bench) checkPower(want bool) {
	b.t.Helper()
	if b.backend.Power == nil {
		return
	}
	if got := b.backend.Power(b.host); got != want {
		b.t.Errorf("powered on = %v, want %v", got, want)
	}
}

// writes returns how often the disk was written.
func (b *bench) writes() int {
	if b.backend.Writes == nil {
		return 0
	}
	return b.backend.Writes(b.host)
}

// configData is a HostConfigData that counts how often it is read.
type configData struct {
	user  string
	err   error
	reads int
}

func (c *configData) UserData() (string, error)    { c.reads++; return c.user, c.err }
func (c *configData) NetworkData() (string, error) { return "", c.err }

// String keeps the data out of failure messages.
func (c *configData) String() string { return fmt.Sprintf("config data of %d bytes", len(c.user)) }
