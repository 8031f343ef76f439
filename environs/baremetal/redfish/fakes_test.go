package redfish_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

// password is what the fake BMCs accept, and what must appear in no message.
const password = "s3cret-of-the-bmc"

var good = bmc.Credentials{Username: "root", Password: password}

// fakeInstaller is an Installer, and what its images do on a machine.
type fakeInstaller struct {
	mu     sync.Mutex
	n      int
	jobs   map[string]*redfish.JobStatus
	writes map[*fakebmc.System]int
	silent bool // machines boot but never report

	refuse   error       // of Start
	job      redfish.Job // the last
	renewals []string    // reasons
}

func newFakeInstaller() *fakeInstaller {
	return &fakeInstaller{jobs: make(map[string]*redfish.JobStatus), writes: make(map[*fakebmc.System]int)}
}

func (f *fakeInstaller) Start(_ context.Context, job redfish.Job) (redfish.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.job = job; f.refuse != nil {
		return redfish.JobStatus{}, f.refuse
	}
	f.n++
	s := &redfish.JobStatus{Number: 1, Tries: 1, Purpose: job.Purpose, Image: job.Image.URL, Phase: redfish.PhaseWaiting, Started: time.Now(),
		ISO: fmt.Sprintf("http://installer.test/%d.iso", f.n), HTTPBoot: fmt.Sprintf("http://installer.test/%d.efi", f.n)}
	f.jobs[job.Host] = s
	return *s, nil
}

func (f *fakeInstaller) Status(_ context.Context, host string) (redfish.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.jobs[host]
	if !ok {
		return redfish.JobStatus{}, errors.NotFoundf("job of host %s", host)
	}
	return *s, nil
}

func (f *fakeInstaller) Mark(_ context.Context, host string, mark redfish.Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.jobs[host]
	if !ok {
		return errors.NotFoundf("job of host %s", host)
	}
	*map[redfish.Mark]*time.Time{redfish.MarkPrepared: &s.Prepared, redfish.MarkBooted: &s.Booted,
		redfish.MarkEjected: &s.Ejected, redfish.MarkRestarted: &s.Restarted}[mark] = time.Now()
	return nil
}

func (f *fakeInstaller) Renew(_ context.Context, host string, number int, reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.jobs[host]
	if !ok || s.Number != number {
		return errors.NotFoundf("boot %d of host %s", number, host)
	}
	f.n++
	f.renewals = append(f.renewals, reason)
	*s = redfish.JobStatus{Purpose: s.Purpose, Image: s.Image, Phase: redfish.PhaseWaiting, Started: time.Now(), Number: number + 1, Tries: s.Tries + 1,
		ISO: fmt.Sprintf("http://installer.test/%d.iso", f.n), HTTPBoot: fmt.Sprintf("http://installer.test/%d.efi", f.n)}
	return nil
}

func (f *fakeInstaller) Cancel(_ context.Context, host string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.jobs, host)
	return nil
}

// boot is what a machine does when it boots: nothing, unless from the medium of
// a job.
func (f *fakeInstaller) boot(ctx context.Context, s *fakebmc.System, boot fakebmc.Boot) fakebmc.End {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.silent || boot.URL == "" {
		return fakebmc.Stays
	}
	for _, job := range f.jobs {
		if boot.URL != job.ISO && boot.URL != job.HTTPBoot {
			continue
		}
		job.LastReport, job.Phase, job.Step = time.Now(), redfish.PhaseDone, "reboot"
		switch {
		case strings.Contains(job.Image, "bad"):
			job.Phase, job.Message = redfish.PhaseFailed, "checksum of the image is wrong"
		default:
			f.writes[s]++
			s.SetDisk(job.Image) // a wipe has no image
		}
	}
	return fakebmc.Stays
}

// rig is a back end with fake BMCs, each on its own port.
type rig struct {
	t         *testing.T
	backend   *redfish.Backend
	options   redfish.Options
	installer *fakeInstaller
	config    fakebmc.Config
	scheme    string // of addresses, before "://"
	tls       bool
	events    []string // reasons of what was published
	hosts     map[*metal3v1alpha1.BareMetalHost]*fakebmc.BMC
	servers   map[*metal3v1alpha1.BareMetalHost]*httptest.Server
}

// newRig returns a rig whose back end hardly waits.
func newRig(t *testing.T, config fakebmc.Config) *rig {
	r := &rig{t: t, installer: newFakeInstaller(), config: config, scheme: "redfish-virtualmedia+http",
		hosts: make(map[*metal3v1alpha1.BareMetalHost]*fakebmc.BMC), servers: make(map[*metal3v1alpha1.BareMetalHost]*httptest.Server)}
	r.config.Credentials = good
	r.config.Machine = func(int) fakebmc.Machine { return fakebmc.Memory{OnBoot: r.installer.boot} }
	r.options = redfish.Options{Installer: r.installer, Poll: 2 * time.Millisecond, RequestTimeout: time.Minute, PowerTimeout: time.Minute}
	r.renew()
	t.Cleanup(func() { r.backend.Close(context.Background()) })
	return r
}

// renew replaces the back end, as a restart of the process would: its sessions
// stay behind.
func (r *rig) renew() { r.backend = redfish.New(r.options) }

// newHost makes a BMC and the record of its host.
func (r *rig) newHost() (*metal3v1alpha1.BareMetalHost, bmc.Credentials) {
	r.t.Helper()
	b, err := fakebmc.New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(b)
	if r.tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	r.t.Cleanup(func() {
		if err := b.Close(); err != nil { // first: it ends requests that hang
			r.t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	h := new(metal3v1alpha1.BareMetalHost)
	h.Metadata.Name = fmt.Sprintf("host-%d", len(r.hosts))
	_, place, _ := strings.Cut(server.URL, "://")
	h.Spec.BMC.Address = r.scheme + "://" + place
	r.hosts[h], r.servers[h] = b, server
	return h, good
}

// system returns the machine of a host.
func (r *rig) system(h *metal3v1alpha1.BareMetalHost) *fakebmc.System { return r.hosts[h].System(0) }

// inject makes requests to a host's BMC go wrong.
func (r *rig) inject(h *metal3v1alpha1.BareMetalHost, f fakebmc.Fault) {
	r.t.Helper()
	if err := r.hosts[h].Inject(f); err != nil {
		r.t.Fatal(err)
	}
}

// certificate returns the fingerprint and the PEM of a host's BMC's certificate.
func (r *rig) certificate(h *metal3v1alpha1.BareMetalHost) (pin, bundle string) {
	c := r.servers[h].Certificate()
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:]), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

var _ http.Handler = (*fakebmc.BMC)(nil)
