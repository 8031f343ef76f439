package environs

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
)

// InstanceConfig is what the agent of a new instance has to know to log in, and
// what its system is set up with. It holds a password and a nonce, so it prints
// as "[redacted]" and its machine.
type InstanceConfig struct {
	// The following are required.

	MachineID      string
	Nonce          string   // proves that this instance was started for the machine
	Password       string   // of the machine's agent
	APIAddresses   []string // host:port, the most likely first
	CACert         string   // PEM, of the site's CA
	ModelUUID      string
	ControllerUUID string
	Jobs           []job.Job

	// The following may be empty.

	AgentBinaries           []AgentBinary // packages of the agent to choose from
	AuthorizedKeys          string        // SSH public keys, one a line
	Proxies                 config.Proxies
	AptProxies              config.Proxies
	AptMirror               string
	EnableOSRefreshUpdate   bool
	EnableOSUpgrade         bool
	SSLHostnameVerification bool
	CloudInitUserData       string // a YAML mapping
	LoggingConfig           string
}

// AgentBinary is a package of the agent that an instance can download.
type AgentBinary struct {
	Version binaries.Version
	URL     string
	SHA256  string // in hexadecimal
	Size    int64  // bytes
}

// Configure takes over what a model's settings say of new instances.
func (c *InstanceConfig) Configure(cfg *config.Config) {
	c.AuthorizedKeys = cfg.AuthorizedKeys()
	c.Proxies = cfg.Proxies()
	c.AptProxies = cfg.AptProxies()
	c.AptMirror = cfg.AptMirror()
	c.EnableOSRefreshUpdate = cfg.EnableOSRefreshUpdate()
	c.EnableOSUpgrade = cfg.EnableOSUpgrade()
	c.SSLHostnameVerification = cfg.SSLHostnameVerification()
	c.CloudInitUserData = cfg.CloudInitUserData()
	c.LoggingConfig = cfg.LoggingConfig()
}

// Validate returns an error satisfying errors.NotValid that names the first
// required field that is missing or malformed.
func (c *InstanceConfig) Validate() error {
	if c == nil {
		return errors.NotValidf("missing instance config")
	}
	switch {
	case !tag.IsValidMachine(c.MachineID):
		return errors.NotValidf("instance config: machine id %q", c.MachineID)
	case c.Nonce == "":
		return errors.NotValidf("instance config: missing machine nonce")
	case c.Password == "":
		return errors.NotValidf("instance config: missing password")
	case len(c.APIAddresses) == 0:
		return errors.NotValidf("instance config: missing API addresses")
	case c.CACert == "":
		return errors.NotValidf("instance config: missing CA certificate")
	case !tag.IsValidUUID(c.ModelUUID):
		return errors.NotValidf("instance config: model UUID %q", c.ModelUUID)
	case !tag.IsValidUUID(c.ControllerUUID):
		return errors.NotValidf("instance config: controller UUID %q", c.ControllerUUID)
	}
	return errors.Annotate(job.Check(c.Jobs), "instance config")
}

// String names the machine and nothing secret.
func (c InstanceConfig) String() string {
	return "[redacted] config of machine " + c.MachineID
}

// GoString is String, so that no verb of fmt prints a secret.
func (c InstanceConfig) GoString() string { return c.String() }

// Validate returns an error satisfying errors.NotValid that names the first
// required field of p that is missing or contradicts another.
func (p StartInstanceParams) Validate() error {
	if err := p.Owner.Validate(); err != nil {
		return err
	}
	if err := p.InstanceConfig.Validate(); err != nil {
		return err
	}
	if p.InstanceConfig.MachineID != p.Owner.MachineID || p.InstanceConfig.ModelUUID != p.Owner.ModelUUID ||
		p.InstanceConfig.ControllerUUID != p.Owner.ControllerUUID {
		return errors.NotValidf("instance config of another machine than %s", p.Owner.MachineID)
	}
	if p.Base.IsZero() {
		return errors.NotValidf("missing base of machine %s", p.Owner.MachineID)
	}
	return nil
}
