//go:build e2e

package ironic_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/internal/testport"
)

// realIronic is a running Ironic.
type realIronic struct {
	t      testing.TB
	dir    string
	url    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// startIronic makes a database and starts Ironic on it.
func startIronic(t testing.TB) *realIronic {
	t.Helper()
	template, err := os.ReadFile("testdata/ironic.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(testport.Free(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	r := &realIronic{t: t, dir: t.TempDir(), url: "http://127.0.0.1:" + port + "/v1"}
	if err := os.Mkdir(filepath.Join(r.dir, "httpboot"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := strings.NewReplacer("@STATE@", r.dir, "@PORT@", port).Replace(string(template))
	if err := os.WriteFile(filepath.Join(r.dir, "ironic.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	r.createSchema()
	r.start()
	t.Cleanup(r.kill)
	return r
}

// command returns a command of Ironic's in a clean environment.
func (r *realIronic) command(args ...string) *exec.Cmd {
	args = append(args[:1:1], append([]string{"--config-file", filepath.Join(r.dir, "ironic.conf")}, args[1:]...)...)
	cmd := exec.Command("/usr/bin/"+args[0], args[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + r.dir}
	return cmd
}

// createSchema makes an empty database.
func (r *realIronic) createSchema() {
	r.t.Helper()
	if out, err := r.command("ironic-dbsync", "create_schema").CombinedOutput(); err != nil {
		r.t.Fatalf("ironic-dbsync: %v\n%s", err, out)
	}
}

// start starts Ironic and waits until it serves.
func (r *realIronic) start() {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "ironic.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	r.cmd = r.command("ironic")
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive a test that is killed
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.exited = make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
	}()
	client := http.Client{Timeout: 30 * time.Second}
	for end := time.Now().Add(5 * time.Minute); ; {
		resp, err := client.Get(r.url + "/drivers")
		if err == nil {
			var b bytes.Buffer
			_, _ = b.ReadFrom(resp.Body)
			_ = resp.Body.Close()
			if strings.Contains(b.String(), "fake-hardware") {
				return
			}
		}
		select {
		case <-r.exited:
			r.t.Fatal("Ironic ended: " + r.tail())
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(end) {
			r.t.Fatal("Ironic does not serve: " + r.tail())
		}
	}
}

// kill kills Ironic, without warning.
func (r *realIronic) kill() {
	_ = r.cmd.Process.Kill()
	<-r.exited
}

// tail returns the end of Ironic's log.
func (r *realIronic) tail() string {
	data, _ := os.ReadFile(filepath.Join(r.dir, "ironic.log"))
	return string(data[max(0, len(data)-3000):])
}

// wipe loses Ironic's database.
func (r *realIronic) wipe() {
	r.t.Helper()
	r.kill()
	if err := os.Remove(filepath.Join(r.dir, "ironic.sqlite")); err != nil {
		r.t.Fatal(err)
	}
	r.createSchema()
	r.start()
}

// bench is one host under test.
type bench struct {
	t       *testing.T
	real    *realIronic
	backend *ironic.Backend
	host    *metal3v1alpha1.BareMetalHost
	creds   bmc.Credentials
	mu      sync.Mutex
	events  []string
}

// newBench returns a host whose BMC is at address.
func newBench(t *testing.T, r *realIronic, address string, c ironic.Config) *bench {
	t.Helper()
	c.Endpoint, c.Poll, c.InspectPoll, c.BusyPoll, c.SoftOffTimeout = r.url, 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 5*time.Second
	b, err := ironic.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	h := new(metal3v1alpha1.BareMetalHost)
	id := uuid.New()
	h.Metadata.Name, h.Metadata.UID = "host-"+id.String()[:8], id.String()
	h.Spec.BootMACAddress = fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", id[0], id[1], id[2], id[3])
	h.Spec.BMC.Address = address
	return &bench{t: t, real: r, backend: b, host: h, creds: bmc.Credentials{Username: "admin", Password: "e2e-password"}}
}

type call = func(provisioner.Provisioner) (provisioner.Result, error)

// finish calls until the operation is over; errors are tolerated while tolerate
// says so.
func (b *bench) finish(what string, tolerate bool, f call) provisioner.Result {
	b.t.Helper()
	start, calls := time.Now(), 0
	for time.Since(start) < 5*time.Minute {
		p, err := b.backend.Factory(context.Background())(b.host, b.creds, func(reason, message string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, reason)
		})
		if err != nil {
			b.t.Fatal(err)
		}
		calls++
		r, err := f(p)
		switch {
		case err != nil && !tolerate:
			b.t.Fatalf("%s: %v", what, err)
		case err != nil:
			b.t.Logf("%s: %v", what, err)
			r.RequeueAfter = time.Second
		case !r.Dirty:
			b.t.Logf("%s: %d calls, %v%s", what, calls, time.Since(start).Round(time.Millisecond), r.ErrorMessage)
			return r
		}
		<-time.After(max(r.RequeueAfter, 20*time.Millisecond))
	}
	b.t.Fatalf("%s: no end; Ironic's log ends with:\n%s", what, b.real.tail())
	return provisioner.Result{}
}

// done is finish for what must succeed.
func (b *bench) done(what string, f call) {
	b.t.Helper()
	if r := b.finish(what, false, f); r.ErrorMessage != "" {
		b.t.Fatalf("%s: %s", what, r.ErrorMessage)
	}
}

func (b *bench) register() {
	b.t.Helper()
	b.done("register", func(p provisioner.Provisioner) (provisioner.Result, error) { return p.ValidateManagementAccess(false) })
}

func (b *bench) inspect() (d *metal3v1alpha1.HardwareDetails) {
	b.t.Helper()
	b.done("inspect", func(p provisioner.Provisioner) (r provisioner.Result, err error) {
		r, d, err = p.InspectHardware()
		return r, err
	})
	if d == nil {
		b.t.Fatal("no details")
	}
	return d
}

func (b *bench) provision(image metal3v1alpha1.Image) {
	b.t.Helper()
	b.host.Spec.Image = &image
	b.done("provision", provisionCall)
	b.host.Status.Provisioning.Image = image
}

func provisionCall(p provisioner.Provisioner) (provisioner.Result, error) { return p.Provision(data{}) }
func deprovision(p provisioner.Provisioner) (provisioner.Result, error)   { return p.Deprovision() }
func remove(p provisioner.Provisioner) (provisioner.Result, error)        { return p.Delete() }
func adopt(p provisioner.Provisioner) (provisioner.Result, error)         { return p.Adopt() }
func powerOn(p provisioner.Provisioner) (provisioner.Result, error)       { return p.PowerOn() }
func powerOff(p provisioner.Provisioner) (provisioner.Result, error)      { return p.PowerOff() }

// data is the HostConfigData of the tests.
type data struct{}

func (data) UserData() (string, error)    { return "#cloud-config\n", nil }
func (data) NetworkData() (string, error) { return "links: []\n", nil }

func TestFakeHardware(t *testing.T) {
	r := startIronic(t)
	b := newBench(t, r, "simulated://machine-1", ironic.Config{})
	b.register()
	b.register()
	b.inspect()
	image := metal3v1alpha1.Image{URL: "http://127.0.0.1/image.raw", Checksum: strings.Repeat("0", 64), ChecksumType: metal3v1alpha1.SHA256}
	b.provision(image)
	b.done("power off", powerOff)
	b.done("power on", powerOn)
	b.done("adopt what we provisioned", adopt)
	b.host.Status.Provisioning.Image = metal3v1alpha1.Image{}
	b.done("deprovision", deprovision)
	b.provision(image)

	t.Log("Ironic is killed in the middle of a deprovisioning")
	p, err := b.backend.Factory(context.Background())(b.host, b.creds, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Deprovision(); err != nil {
		t.Fatal(err)
	}
	r.kill()
	if _, err := p.Deprovision(); err == nil {
		t.Error("a dead Ironic answers")
	}
	r.start()
	b.host.Status.ErrorType = metal3v1alpha1.ProvisioningError
	if res := b.finish("deprovision", true, deprovision); res.ErrorMessage != "" {
		t.Fatalf("deprovision after the kill: %s", res.ErrorMessage)
	}
	b.host.Status.ErrorType = ""
	b.provision(image)

	t.Log("Ironic's database is lost")
	r.wipe()
	p, _ = b.backend.Factory(context.Background())(b.host, b.creds, func(string, string) {})
	if _, err := p.Adopt(); !errors.Is(err, provisioner.ErrNotRegistered) {
		t.Fatalf("Adopt after the loss: %v, want ErrNotRegistered", err)
	}
	b.register()
	b.done("adopt", adopt)
	b.done("deprovision", deprovision)
	b.provision(image)
	b.done("delete while provisioned", remove)
	b.done("delete again", remove)
}

func TestDeleteWhileBusy(t *testing.T) {
	r := startIronic(t)
	for n := range 3 {
		b := newBench(t, r, fmt.Sprintf("simulated://busy-%d", n), ironic.Config{})
		b.register()
		b.host.Spec.Image = &metal3v1alpha1.Image{URL: "http://127.0.0.1/image.raw", Checksum: "00"}
		for range 1 + n {
			p, err := b.backend.Factory(context.Background())(b.host, b.creds, func(string, string) {})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Provision(data{}); err != nil {
				t.Fatal(err)
			}
		}
		b.done("delete", remove)
	}
}

func TestRedfishHardware(t *testing.T) {
	r := startIronic(t)
	iso := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	defer iso.Close()
	fake, err := fakebmc.New(fakebmc.Config{Credentials: bmc.Credentials{Username: "admin", Password: "e2e-password"},
		Delays: fakebmc.Delays{PowerOn: 200 * time.Millisecond, PowerOff: 200 * time.Millisecond, SoftOff: 500 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fake.Close() }()
	server := httptest.NewServer(fake)
	defer server.Close()
	address := "redfish-virtualmedia+" + server.URL + fake.System(0).Path()
	b := newBench(t, r, address, ironic.Config{
		NoCleaning: true, DeployKernel: iso.URL + "/kernel", DeployRamdisk: iso.URL + "/ramdisk",
		Interfaces: map[string]string{"inspect": "redfish", "network": "noop", "bios": "no-bios", "raid": "no-raid", "vendor": "no-vendor"},
	})
	b.host.Spec.BootMACAddress = fake.System(0).MAC()

	good := b.creds
	b.creds.Password = "wrong-password"
	res := b.finish("register with a wrong password", false, func(p provisioner.Provisioner) (provisioner.Result, error) { return p.ValidateManagementAccess(false) })
	if !strings.Contains(res.ErrorMessage, "401") || strings.Contains(res.ErrorMessage, "wrong-password") {
		t.Errorf("verdict %q", res.ErrorMessage)
	}
	b.creds = good
	first := true
	b.done("register with the right one", func(p provisioner.Provisioner) (provisioner.Result, error) {
		changed := first
		first = false
		return p.ValidateManagementAccess(changed)
	})
	d := b.inspect()
	t.Logf("details %+v", d)
	b.done("power on", powerOn)
	if !fake.System(0).PoweredOn() {
		t.Error("the machine is off")
	}
	b.done("power off", powerOff)
	if fake.System(0).PoweredOn() {
		t.Error("the machine is on")
	}
	format := metal3v1alpha1.LiveISO
	image := metal3v1alpha1.Image{URL: iso.URL + "/live.iso", DiskFormat: &format}
	b.provision(image)
	if !fake.System(0).PoweredOn() {
		t.Errorf("provisioned but off; medium %q", fake.System(0).Media())
	}
	r.wipe()
	b.register()
	b.done("adopt", adopt)
	b.done("deprovision", deprovision)
	b.done("delete", remove)
}
