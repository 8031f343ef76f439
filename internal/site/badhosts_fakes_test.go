package site_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/image"
)

// diskSize is that of the machines' disks, in bytes.
const diskSize = 1 << 20

// content is what all images hold.
var content = []byte(strings.Repeat("an image", 512))

// checksum is that of content.
func checksum() string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// fakeInstaller takes jobs as the controller does, and has the machines that boot from
// them fetch and verify their images as the real installer does, to a disk in memory.
type fakeInstaller struct {
	images *http.Client // answers for all servers of images

	mu   sync.Mutex
	n    int
	jobs map[string]*fakeJob // by host
}

type fakeJob struct {
	redfish.JobStatus
	image config.Image
}

func newFakeInstaller() *fakeInstaller {
	return &fakeInstaller{images: &http.Client{Transport: imageServers{}}, jobs: map[string]*fakeJob{}}
}

// imageServers is a network with one server of images; nobody listens elsewhere.
type imageServers struct{}

func (imageServers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "images.test" {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	w := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, ContentLength: int64(len(content)), Request: r}
	w.Body = io.NopCloser(strings.NewReader(string(content)))
	return w, nil
}

func (f *fakeInstaller) Start(_ context.Context, job redfish.Job) (redfish.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	one := &fakeJob{image: config.Image{URLs: []string{job.Image.URL}, Checksum: "sha256:" + job.Image.Checksum}}
	one.JobStatus = redfish.JobStatus{
		Number: 1, Tries: 1, Purpose: job.Purpose, Image: job.Image.URL, Phase: redfish.PhaseWaiting, Started: time.Now(),
		ISO: fmt.Sprintf("http://installer.test/%d.iso", f.n), HTTPBoot: fmt.Sprintf("http://installer.test/%d.efi", f.n),
	}
	f.jobs[job.Host] = one
	return one.JobStatus, nil
}

func (f *fakeInstaller) Status(_ context.Context, host string) (redfish.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if job := f.jobs[host]; job != nil {
		return job.JobStatus, nil
	}
	return redfish.JobStatus{}, errors.NotFoundf("job of host %s", host)
}

func (f *fakeInstaller) Mark(_ context.Context, host string, mark redfish.Mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	job := f.jobs[host]
	if job == nil {
		return errors.NotFoundf("job of host %s", host)
	}
	*map[redfish.Mark]*time.Time{
		redfish.MarkPrepared: &job.Prepared, redfish.MarkBooted: &job.Booted, redfish.MarkEjected: &job.Ejected, redfish.MarkRestarted: &job.Restarted,
	}[mark] = time.Now()
	return nil
}

func (f *fakeInstaller) Renew(context.Context, string, int, string) error {
	return errors.New("no machine was to be booted twice")
}

func (f *fakeInstaller) Cancel(_ context.Context, host string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.jobs, host)
	return nil
}

// boot is what a machine does at power on.
func (f *fakeInstaller) boot(ctx context.Context, s *fakebmc.System, boot fakebmc.Boot) fakebmc.End {
	f.mu.Lock()
	var job *fakeJob
	for _, j := range f.jobs {
		if boot.URL != "" && (boot.URL == j.ISO || boot.URL == j.HTTPBoot) {
			job = j
		}
	}
	f.mu.Unlock()
	if job == nil {
		return fakebmc.Stays
	}
	var err error
	if job.Purpose == redfish.PurposeInstall {
		err = f.install(ctx, job.image)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	job.LastReport, job.Step, job.Phase = time.Now(), "stream-image", redfish.PhaseDone
	if err != nil {
		job.Phase, job.Message = redfish.PhaseFailed, "step stream-image: "+err.Error()
		return fakebmc.Stays
	}
	s.SetDisk(job.Image) // a wipe has no image
	return fakebmc.Stays
}

// install fetches an image.
func (f *fakeInstaller) install(ctx context.Context, order config.Image) error {
	w := image.NewWriter(image.Config{Client: f.images, Pause: time.Millisecond})
	url, _, err := w.Check(ctx, order)
	if err != nil {
		return err
	}
	_, err = w.Write(ctx, order, image.Target{URL: url, Device: new(memoryDisk), Size: diskSize})
	return err
}

// memoryDisk is a disk.Device of diskSize bytes.
type memoryDisk struct {
	mu   sync.Mutex
	data [diskSize]byte
}

func (d *memoryDisk) ReadAt(p []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(p, d.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d *memoryDisk) WriteAt(p []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(d.data[at:], p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (d *memoryDisk) Close() error         { return nil }
func (d *memoryDisk) Size() (int64, error) { return diskSize, nil }
func (d *memoryDisk) Sync() error          { return nil }
func (d *memoryDisk) Reread() error        { return nil }

// certificate returns a new certificate for 127.0.0.1, and its SHA-256.
func certificate(t *testing.T) (*tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, hex.EncodeToString(sum[:])
}
