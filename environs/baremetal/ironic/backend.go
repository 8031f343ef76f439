package ironic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

var logger = loggo.GetLogger("slipway.environs.baremetal.ironic")

// The API versions we can work with, of major version 1: 56 brought the config
// drive as JSON; 82 is the newest that has been tried.
const (
	minMinor = 56
	maxMinor = 82
)

// ErrNotReady is returned while Ironic does not answer, or has no conductor.
const ErrNotReady = errors.ConstError("Ironic is not ready")

// Config says where Ironic is and how to use it.
type Config struct {
	Endpoint string // e.g. "http://127.0.0.1:6385/v1"; required
	// Username and Password are for HTTP basic authentication; empty: none.
	Username, Password string
	// Token returns the token to send as X-Auth-Token, for each request anew; nil:
	// none. A proxy before Ironic may want one, without there being a Keystone.
	Token      func() (string, error)
	CABundle   string // PEM; empty: the operating system's authorities
	SkipVerify bool   // accept any certificate

	// DeployKernel, DeployRamdisk and DeployISO are URLs of Ironic's agent. They
	// may be empty if Ironic's own configuration has them.
	DeployKernel, DeployRamdisk, DeployISO string

	// NoCleaning leaves disks as they are between two uses of a host.
	NoCleaning bool

	// Interfaces, where not empty, take the place of those that the BMC address
	// implies. The keys are Ironic's: boot, bios, deploy, inspect, management,
	// network, power, raid, vendor.
	Interfaces map[string]string

	RequestTimeout time.Duration // for one request; 0 means 30 s
	CallTimeout    time.Duration // for one call of a Provisioner; 0 means 90 s
	Poll           time.Duration // between two looks at a node at work; 0 means 10 s
	InspectPoll    time.Duration // the same during inspection; 0 means 15 s
	BusyPoll       time.Duration // before asking a locked node again; 0 means 3 s
	SoftOffTimeout time.Duration // given to an operating system to shut down; 0 means 180 s
}

// Validate returns an error satisfying errors.NotValid if Ironic cannot be reached
// that way.
func (c Config) Validate() error {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.NewNotValid(nil, "Ironic endpoint is not a URL such as http://192.0.2.1:6385/v1")
	}
	if c.Username != "" && c.Token != nil {
		return errors.NewNotValid(nil, "Ironic takes a user name or a token, not both")
	}
	if (c.Username == "") != (c.Password == "") {
		return errors.NewNotValid(nil, "Ironic user name and password go together")
	}
	if c.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CABundle)) {
		return errors.NewNotValid(nil, "Ironic CA bundle holds no certificate in PEM")
	}
	for key := range c.Interfaces {
		switch key {
		case "boot", "bios", "deploy", "inspect", "management", "network", "power", "raid", "vendor":
		default:
			return errors.NewNotValid(nil, fmt.Sprintf("Ironic has no interface called %q", key))
		}
	}
	return nil
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.RequestTimeout, 30 * time.Second}, {&c.CallTimeout, 90 * time.Second}, {&c.Poll, 10 * time.Second},
		{&c.InspectPoll, 15 * time.Second}, {&c.BusyPoll, 3 * time.Second}, {&c.SoftOffTimeout, 180 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

// Backend is the way to one Ironic. Its methods may be called from any goroutine.
type Backend struct {
	config Config
	client *gophercloud.ServiceClient // without a version: never used itself
	http   *http.Transport

	mu      sync.Mutex
	version string                   // the negotiated one; empty: not yet
	power   map[string]*powerCommand // by node
}

// New returns a back end; it does not connect. The error satisfies
// errors.NotValid.
func New(c Config) (*Backend, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	c = c.withDefaults()
	var (
		client *gophercloud.ServiceClient
		err    error
	)
	if c.Username != "" {
		client, err = httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{IronicEndpoint: c.Endpoint, IronicUser: c.Username, IronicUserPassword: c.Password})
	} else {
		client, err = noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: c.Endpoint})
	}
	if err != nil {
		return nil, errors.NewNotValid(err, "Ironic cannot be reached that way")
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: c.RequestTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.SkipVerify},
	}
	if c.CABundle != "" {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(c.CABundle))
	}
	var way http.RoundTripper = bounded{transport}
	if c.Token != nil {
		way = tokened{way, c.Token}
	}
	client.ProviderClient.HTTPClient = http.Client{Transport: way, Timeout: c.RequestTimeout}
	return &Backend{config: c, client: client, http: transport, power: make(map[string]*powerCommand)}, nil
}

// Close closes idle connections.
func (b *Backend) Close() { b.http.CloseIdleConnections() }

// versioned returns a client that speaks the newest version which both sides know.
func (b *Backend) versioned(ctx context.Context) (*gophercloud.ServiceClient, error) {
	b.mu.Lock()
	version := b.version
	b.mu.Unlock()
	client := *b.client
	if version == "" {
		var err error
		if version, err = negotiate(ctx, client); err != nil {
			return nil, errors.Trace(err)
		}
		b.mu.Lock()
		b.version = version
		b.mu.Unlock()
		logger.Infof("Ironic at %s: API version %s", b.config.Endpoint, version)
	}
	client.Microversion = version
	return &client, nil
}

// negotiate asks which versions Ironic speaks.
func negotiate(ctx context.Context, client gophercloud.ServiceClient) (string, error) {
	var root struct {
		Version struct {
			Min string `json:"min_version"`
			Max string `json:"version"`
		} `json:"version"`
	}
	resp, err := client.Get(ctx, client.Endpoint, &root, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if _, _, err = gophercloud.ParseResponse(resp, err); err != nil {
		return "", errors.Annotate(plain(err), "cannot ask Ironic for its version")
	}
	lowest, highest := minor(root.Version.Min), minor(root.Version.Max)
	if highest < minMinor || lowest > maxMinor {
		return "", errors.NotSupportedf("Ironic with API versions %q to %q (want any of 1.%d to 1.%d)", root.Version.Min, root.Version.Max, minMinor, maxMinor)
	}
	return "1." + strconv.Itoa(min(highest, maxMinor)), nil
}

// minor returns the 56 of "1.56"; -1 if version is something else.
func minor(version string) int {
	rest, ok := strings.CutPrefix(version, "1.")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil {
		return -1
	}
	return n
}

// Factory returns the back end's provisioner.Factory. The Provisioners that it
// makes stop when ctx is done.
func (b *Backend) Factory(ctx context.Context) provisioner.Factory {
	return func(host *metal3v1alpha1.BareMetalHost, creds bmc.Credentials, publish provisioner.EventPublisher) (provisioner.Provisioner, error) {
		address, err := bmc.Parse(host.Spec.BMC.Address)
		if err != nil {
			return nil, errors.Trace(err)
		}
		return &hostProvisioner{backend: b, c: b.config, ctx: ctx, host: host, address: address, creds: creds, publish: publish}, nil
	}
}

// hostProvisioner is the provisioner.Provisioner of one host.
type hostProvisioner struct {
	backend *Backend
	c       Config
	ctx     context.Context // of the Factory: the methods take none
	host    *metal3v1alpha1.BareMetalHost
	address bmc.Address
	creds   bmc.Credentials
	publish provisioner.EventPublisher

	// read is the node as it was read lately, until something is done to it: the
	// calls of one pass share it.
	read   *nodes.Node
	readAt time.Time
}

// readFor is how long a node that was read counts as read.
const readFor = 2 * time.Second

var (
	_ provisioner.Provisioner  = (*hostProvisioner)(nil)
	_ provisioner.ReadyChecker = (*hostProvisioner)(nil)
)

// call is one call of a method, with its time limit and the node it is about.
type call struct {
	*hostProvisioner
	ctx    context.Context
	client *gophercloud.ServiceClient
	node   *nodes.Node // nil: Ironic does not know the host
}

// begin starts a call.
func (p *hostProvisioner) begin() (*call, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.c.CallTimeout)
	client, err := p.backend.versioned(ctx)
	if err != nil {
		cancel()
		return nil, nil, errors.Trace(err)
	}
	return &call{hostProvisioner: p, ctx: ctx, client: client}, cancel, nil
}

// run makes a call about a node that must be there.
func (p *hostProvisioner) run(f func(*call) (provisioner.Result, error)) (provisioner.Result, error) {
	c, cancel, err := p.begin()
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	defer cancel()
	if c.node, err = c.findRegistered(); err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	if c.node == nil {
		return provisioner.Result{}, errors.Trace(provisioner.ErrNotRegistered)
	}
	return c.sort(f(c))
}

// IsReady is described by provisioner.ReadyChecker.
func (p *hostProvisioner) IsReady() (bool, error) {
	c, cancel, err := p.begin()
	if err != nil {
		logger.Debugf("Ironic is not ready: %v", err)
		return false, nil
	}
	defer cancel()
	var answer struct {
		Drivers []struct {
			Name string `json:"name"`
		} `json:"drivers"`
	}
	resp, err := c.client.Get(c.ctx, c.client.ServiceURL("drivers"), &answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if _, _, err = gophercloud.ParseResponse(resp, err); err != nil {
		logger.Debugf("Ironic is not ready: %v", plain(err))
		return false, nil
	}
	return len(answer.Drivers) > 0, nil
}

// tokened sends a token with each request.
type tokened struct {
	next  http.RoundTripper
	token func() (string, error)
}

// RoundTrip implements http.RoundTripper.
func (t tokened) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.token()
	if err != nil {
		return nil, errors.Annotate(err, "cannot get the token for Ironic")
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-Auth-Token", token)
	return t.next.RoundTrip(r)
}
