package redfish

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

var logger = loggo.GetLogger("slipway.environs.baremetal.redfish")

// Options say how patient the back end is. The zero value is usable, but cannot
// write images.
type Options struct {
	// Installer writes images; nil: Provision and Deprovision of an image fail.
	Installer Installer

	RequestTimeout time.Duration // for one request; 0 means 30 s
	CallTimeout    time.Duration // for one call of a Provisioner; 0 means 90 s
	Poll           time.Duration // between two looks at something slow; 0 means 5 s
	VerifyEvery    time.Duration // between two proofs that access still works; 0 means 10 min

	PowerTimeout   time.Duration // until a power command must show; 0 means 2 min
	SoftOffTimeout time.Duration // until an operating system must have shut down; 0 means 3 min
	BootTimeout    time.Duration // from the order of a boot to the installer's first report; 0 means 30 min
	SilenceTimeout time.Duration // between two reports of an installer; 0 means 2 min
	MaxBoots       int           // of an installer for one job; 0 means 3
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.RequestTimeout, 30 * time.Second}, {&o.CallTimeout, 90 * time.Second}, {&o.Poll, 5 * time.Second},
		{&o.VerifyEvery, 10 * time.Minute}, {&o.PowerTimeout, 2 * time.Minute}, {&o.SoftOffTimeout, 3 * time.Minute},
		{&o.BootTimeout, 30 * time.Minute}, {&o.SilenceTimeout, 2 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.MaxBoots == 0 {
		o.MaxBoots = 3
	}
	return o
}

// Backend is the way to all BMCs. Its methods may be called from any goroutine.
type Backend struct {
	options Options

	mu    sync.Mutex
	conns map[string]*conn // by host and port
}

// New returns a back end. It must be closed, to end its sessions.
func New(o Options) *Backend {
	return &Backend{options: o.withDefaults(), conns: make(map[string]*conn)}
}

// Close ends all sessions, as far as ctx allows.
func (b *Backend) Close(ctx context.Context) {
	b.mu.Lock()
	conns := b.conns
	b.conns = make(map[string]*conn)
	b.mu.Unlock()
	var wg sync.WaitGroup
	limit := make(chan struct{}, 64)
	for _, c := range conns {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			c.logout(ctx)
		})
	}
	wg.Wait()
}

// Factory returns the back end's provisioner.Factory. The Provisioners that it
// makes stop when ctx is done.
func (b *Backend) Factory(ctx context.Context) provisioner.Factory {
	return func(host *metal3v1alpha1.BareMetalHost, creds bmc.Credentials, publish provisioner.EventPublisher) (provisioner.Provisioner, error) {
		address, err := bmc.Parse(host.Spec.BMC.Address)
		if err != nil {
			return nil, errors.Trace(err)
		}
		if address.Driver.Family != bmc.FamilyRedfish {
			return nil, errors.NewNotSupported(nil, "BMC address "+address.String()+" is not one of a Redfish BMC")
		}
		if _, err := tlsConfig(host.Spec.BMC); err != nil {
			return nil, errors.Trace(err)
		}
		return &hostProvisioner{backend: b, o: b.options, ctx: ctx, host: host, address: address, creds: creds, publish: publish}, nil
	}
}

// conn returns the way to a host's BMC. Other credentials or another trust make
// a new one in place of the old.
func (b *Backend) conn(ctx context.Context, address bmc.Address, d metal3v1alpha1.BMCDetails, creds bmc.Credentials) (*conn, error) {
	trust := strings.Join([]string{d.CertificateFingerprint, d.CABundle}, "\x00")
	if d.DisableCertificateVerification {
		trust += "\x00any"
	}
	key := address.HostPort()
	b.mu.Lock()
	old := b.conns[key]
	b.mu.Unlock()
	if old != nil && old.creds == creds && old.trust == trust && old.endpoint == address.Endpoint() {
		return old, nil
	}
	tc, err := tlsConfig(d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	transport := newTransport(b.options.RequestTimeout)
	transport.TLSClientConfig = tc
	c := newConn(address.Endpoint(), creds, transport, b.options.RequestTimeout)
	c.trust = trust
	b.mu.Lock()
	b.conns[key] = c
	b.mu.Unlock()
	if old != nil {
		old.logout(ctx)
	}
	return c, nil
}

// hostProvisioner is the provisioner.Provisioner of one host.
type hostProvisioner struct {
	backend *Backend
	o       Options
	ctx     context.Context // of the Factory: the methods take none
	host    *metal3v1alpha1.BareMetalHost
	address bmc.Address
	creds   bmc.Credentials
	publish provisioner.EventPublisher

	doing   string // what the installer does now
	details *metal3v1alpha1.HardwareDetails
	media   []string // URLs that are secret
}

var (
	_ provisioner.Provisioner    = (*hostProvisioner)(nil)
	_ provisioner.ProgressTeller = (*hostProvisioner)(nil)
	_ provisioner.DetailsTeller  = (*hostProvisioner)(nil)
)

// Progress is described by provisioner.ProgressTeller.
func (p *hostProvisioner) Progress() string { return p.doing }

// Details is described by provisioner.DetailsTeller.
func (p *hostProvisioner) Details() *metal3v1alpha1.HardwareDetails { return p.details }

// call is one call of a method, with its time limit.
type call struct {
	*hostProvisioner
	ctx   context.Context
	conn  *conn
	known *known
	path  string // of the system
}

// run makes a call for a registered host and sorts its outcome.
func (p *hostProvisioner) run(f func(c *call) (provisioner.Result, error)) (provisioner.Result, error) {
	path := p.host.Status.Provisioning.ID
	if path == "" {
		return provisioner.Result{}, errors.Trace(provisioner.ErrNotRegistered)
	}
	return p.runAt(path, f)
}

// runAt makes a call for the system at path, which may not be known yet.
func (p *hostProvisioner) runAt(path string, f func(c *call) (provisioner.Result, error)) (provisioner.Result, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.CallTimeout)
	defer cancel()
	conn, err := p.backend.conn(ctx, p.address, p.host.Spec.BMC, p.creds)
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	result, err := f(&call{hostProvisioner: p, ctx: ctx, conn: conn, known: conn.system(path), path: path})
	return p.sort(result, err)
}

// sort turns verdicts into ErrorMessages, and lasting refusals too.
func (p *hostProvisioner) sort(result provisioner.Result, err error) (provisioner.Result, error) {
	var (
		v verdict
		r *refusal
	)
	switch {
	case err == nil:
		result.ErrorMessage = p.clean(result.ErrorMessage)
		return result, nil
	case errors.As(err, &v):
		return provisioner.Failed(p.clean(v.message)), nil
	case errors.As(err, &r) && !r.passing():
		return provisioner.Failed(p.clean(r.Error())), nil
	}
	if text := err.Error(); p.clean(text) != text {
		err = errors.New(p.clean(text))
	}
	return provisioner.Result{}, errors.Annotatef(err, "cannot manage host at %s", p.address)
}

// clean makes a text from a BMC fit to be shown, without the password and without where our
// media are, which a BMC may quote.
func (p *hostProvisioner) clean(text string) string {
	for _, url := range p.media {
		if url != "" {
			text = strings.ReplaceAll(text, url, "[our medium]")
		}
	}
	return clean(text, p.creds.Password)
}

// id returns what an installer knows the host by.
func (p *hostProvisioner) id() string {
	if p.host.Metadata.UID != "" {
		return p.host.Metadata.UID
	}
	return p.host.Metadata.Name
}

// ValidateManagementAccess is described by provisioner.Provisioner.
func (p *hostProvisioner) ValidateManagementAccess(credentialsChanged bool) (provisioner.Result, error) {
	if err := p.creds.Validate(); err != nil {
		return provisioner.Failed(err.Error()), nil
	}
	return p.runAt(p.host.Status.Provisioning.ID, func(c *call) (provisioner.Result, error) {
		if p.verifiedLately(c) && !credentialsChanged {
			return provisioner.Result{}, nil
		}
		var root struct {
			RedfishVersion string
			Systems        link
		}
		a, err := c.conn.send(c.ctx, request{method: "GET", path: rootPath})
		if err == nil {
			err = decode(a, rootPath, &root)
		}
		if err != nil {
			return provisioner.Result{}, err
		}
		if root.Systems.ID == "" {
			return provisioner.Result{}, verdictf("there is no Redfish service with systems at %s", p.address.Endpoint())
		}
		path, err := c.conn.findSystem(c.ctx, p.address.Path)
		if err != nil {
			return provisioner.Result{}, err
		}
		sys, err := c.conn.readSystem(c.ctx, path)
		if statusOf(err) == 404 {
			return provisioner.Result{}, verdictf("the BMC has no system at %s; see %s there for those it has", path, systemsPath)
		}
		if err != nil {
			return provisioner.Result{}, err
		}
		if sys.PowerState == "" {
			return provisioner.Result{}, verdictf("what is at %s is no system: it has no power state", path)
		}
		p.registered(c, path)
		return provisioner.Result{}, nil
	})
}

// verifiedLately reports whether there is no need to prove access again.
func (p *hostProvisioner) verifiedLately(c *call) bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.path != "" && !c.known.verified.IsZero() && time.Since(c.known.verified) < p.o.VerifyEvery
}

// registered notes that access to the system at path works.
func (p *hostProvisioner) registered(c *call, path string) {
	k := c.conn.system(path)
	c.conn.mu.Lock()
	k.verified = time.Now()
	c.conn.mu.Unlock()
	if p.host.Status.Provisioning.ID != path {
		p.host.Status.Provisioning.ID = path
		p.publish("Registered", "Registered new host")
	}
}

// UpdateHardwareState is described by provisioner.Provisioner.
func (p *hostProvisioner) UpdateHardwareState() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		sys, err := c.conn.readSystem(c.ctx, c.path)
		if err != nil {
			return provisioner.Result{}, err
		}
		on, known := sys.isOn()
		if !known || on == p.host.Status.PoweredOn {
			return provisioner.Result{}, nil
		}
		p.host.Status.PoweredOn = on
		return provisioner.Result{Dirty: true}, nil
	})
}

// Adopt is described by provisioner.Provisioner. There is nothing to do: what is
// on a disk concerns the BMC as little as us.
func (p *hostProvisioner) Adopt() (provisioner.Result, error) {
	if p.host.Status.Provisioning.ID == "" {
		return provisioner.Result{}, errors.Trace(provisioner.ErrNotRegistered)
	}
	return provisioner.Result{}, nil
}

// Delete is described by provisioner.Provisioner. It takes our medium out of the
// host if that can be done, and does not insist.
func (p *hostProvisioner) Delete() (provisioner.Result, error) {
	if p.o.Installer == nil {
		return provisioner.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.o.CallTimeout)
	defer cancel()
	job, err := p.o.Installer.Status(ctx, p.id())
	if errors.Is(err, errors.NotFound) {
		return provisioner.Result{}, nil
	}
	if err != nil {
		return provisioner.Result{}, errors.Annotate(err, "cannot ask for the host's job")
	}
	if p.host.Status.Provisioning.ID != "" && p.creds.Validate() == nil && job.ISO != "" {
		_, err := p.run(func(c *call) (provisioner.Result, error) {
			return provisioner.Result{}, c.eject(job.ISO)
		})
		if err != nil {
			logger.Warningf("host %s: its virtual CD may still hold our medium: %v", p.host.Metadata.Name, err)
		}
	}
	if err := p.o.Installer.Cancel(ctx, p.id()); err != nil {
		return provisioner.Result{}, errors.Annotate(err, "cannot cancel the host's job")
	}
	return provisioner.Again(0), nil // the next call confirms it
}
