package config

import (
	"strings"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/core/tag"
)

// The names of the settings that code asks for.
const (
	Name           = "name"
	Type           = "type"
	UUID           = "uuid"
	ControllerUUID = "controller-uuid"

	AgentStream           = "agent-stream"
	AgentDowngrade        = "agent-downgrade"
	AgentVersion          = "agent-version"
	AptFTPProxy           = "apt-ftp-proxy"
	AptHTTPProxy          = "apt-http-proxy"
	AptHTTPSProxy         = "apt-https-proxy"
	AptMirror             = "apt-mirror"
	AuthorizedKeys        = "authorized-keys"
	CloudInitUserData     = "cloudinit-userdata"
	DefaultBase           = "default-base"
	DefaultSeries         = "default-series"
	Development           = "development"
	EnableOSRefreshUpdate = "enable-os-refresh-update"
	EnableOSUpgrade       = "enable-os-upgrade"
	FirewallMode          = "firewall-mode"
	FTPProxy              = "ftp-proxy"
	HarvestModeKey        = "provisioner-harvest-mode"
	HTTPProxy             = "http-proxy"
	HTTPSProxy            = "https-proxy"
	ImageStream           = "image-stream"
	LoggingConfig         = "logging-config"
	NoProxy               = "no-proxy"
	ProvisionWorkers      = "num-provision-workers"
	ResourceTags          = "resource-tags"
	RetryCount            = "provisioner-retry-count"
	RetryDelay            = "provisioner-retry-delay"
	SSLVerification       = "ssl-hostname-verification"
	StorageBlockSource    = "storage-default-block-source"
)

// Fields returns the table of the settings that every model has, whatever its
// provider.
func Fields() Schema {
	return Schema{
		{Name: Name, Mandatory: true, Immutable: true, Check: checkName, Doc: "The model's name: lower-case letters, digits and hyphens."},
		{Name: Type, Mandatory: true, Immutable: true, Doc: "The provider that runs the model's machines."},
		{Name: UUID, Mandatory: true, Immutable: true, Check: checkUUID, Doc: "The model's UUID."},
		{Name: ControllerUUID, Immutable: true, ControllerOnly: true, Check: checkUUID, Doc: "The site's UUID."},

		{Name: AgentDowngrade, Kind: Bool, Doc: "Whether agents that are newer than agent-version go back to it; changed by upgrading."},
		{Name: AgentStream, Default: "released", Doc: "Where new agent versions are taken from."},
		{Name: AgentVersion, Check: checkVersion, Doc: "The version that the model's agents run; changed by upgrading."},
		{Name: AptFTPProxy, Doc: "The FTP proxy for packages; empty means ftp-proxy."},
		{Name: AptHTTPProxy, Doc: "The HTTP proxy for packages; empty means http-proxy."},
		{Name: AptHTTPSProxy, Doc: "The HTTPS proxy for packages; empty means https-proxy."},
		{Name: AptMirror, Doc: "The mirror that machines take packages from; empty means the distribution's own."},
		{Name: AuthorizedKeys, Doc: "The SSH public keys, one a line, that may log in to machines."},
		{Name: CloudInitUserData, Check: checkYAML, Doc: "More cloud-init user data for new machines: a YAML mapping."},
		{Name: DefaultBase, Check: checkBase, Doc: "The operating system of machines that name none, such as ubuntu@22.04; empty means the newest with long-term support."},
		{Name: DefaultSeries, Check: checkSeries, Doc: "The same as default-base, by series; setting one clears the other."},
		{Name: Development, Kind: Bool, Doc: "Whether agent versions under development may be used."},
		{Name: EnableOSRefreshUpdate, Kind: Bool, Default: true, Doc: "Whether new machines refresh their list of packages."},
		{Name: EnableOSUpgrade, Kind: Bool, Default: true, Doc: "Whether new machines upgrade their packages."},
		{Name: FirewallMode, Default: "instance", Values: []string{"instance", "global", "none"}, Immutable: true, Doc: "Whether each instance has a firewall, the model has one for all, or none."},
		{Name: FTPProxy, Doc: "The FTP proxy of machines."},
		{Name: HTTPProxy, Doc: "The HTTP proxy of machines."},
		{Name: HTTPSProxy, Doc: "The HTTPS proxy of machines."},
		{Name: ImageStream, Default: "released", Doc: "Where machine images are taken from."},
		{Name: LoggingConfig, Default: "<root>=INFO", Check: checkLogging, Doc: "What agents log, such as <root>=INFO;slipway.api=DEBUG."},
		{Name: NoProxy, Doc: "The hosts that are reached without a proxy, separated by commas."},
		{Name: ProvisionWorkers, Kind: Int, Default: 16, Check: between(1, 1000), Doc: "How many machines are started at once, from 1 to 1000."},
		{Name: HarvestModeKey, Default: string(HarvestDestroyed), Values: harvestModes(), Doc: "Which instances are stopped: those of destroyed machines, unknown ones that this model owns, all (both), or none."},
		{Name: RetryCount, Kind: Int, Default: 10, Check: between(0, 1000), Doc: "How many more times a machine's start is tried after it failed, from 0 to 1000."},
		{Name: RetryDelay, Kind: Duration, Default: "10s", Doc: "How long to wait before the first retry of a start; doubled for each further one, up to 5m."},
		{Name: ResourceTags, Kind: Tags, Check: checkResourceTags, Doc: "Tags for every instance, as key=value pairs."},
		{Name: SSLVerification, Kind: Bool, Default: true, Doc: "Whether machines check the host names of TLS servers."},
		{Name: StorageBlockSource, Check: checkStorage, Doc: "The storage pool, or type of storage, of volumes that are asked for without one; empty means the provider's own."},
	}
}

// replaced has, for settings that name a file on the operator's own computer,
// the setting that takes the file's content.
var replaced = map[string]string{
	"authorized-keys-path": AuthorizedKeys,
	"ca-cert-path":         "ca-cert",
	"ca-private-key-path":  "ca-private-key",
}

// The checks below say what would be right; Field puts what was wrong before
// it. They are given values of their field's kind only.

func checkName(value any) error {
	if !tag.IsValidModelName(value.(string)) {
		return errors.New("want lower-case letters, digits and hyphens, not starting with a hyphen")
	}
	return nil
}

func checkUUID(value any) error {
	if !tag.IsValidUUID(value.(string)) {
		return errors.New("want a UUID")
	}
	return nil
}

func checkVersion(value any) error {
	if _, err := binaries.ParseNumber(value.(string)); err != nil {
		return errors.New("want a version such as 2.0.0")
	}
	return nil
}

func checkBase(value any) error {
	_, err := base.Parse(value.(string))
	return err
}

func checkStorage(value any) error {
	name := value.(string)
	if (storage.Pool{Name: name, Provider: name}).Check() != nil {
		return errors.New("want the name of a storage pool or of a type of storage")
	}
	return nil
}

func checkSeries(value any) error {
	if _, err := base.FromSeries(value.(string)); err != nil {
		return errors.Errorf("want the name of a series such as %s", base.DefaultSeries())
	}
	return nil
}

func checkLogging(value any) error {
	_, err := loggo.ParseConfigString(value.(string))
	return err
}

func checkYAML(value any) error {
	var m map[string]any
	if err := yaml.Unmarshal([]byte(value.(string)), &m); err != nil {
		return errors.New("want a YAML mapping")
	}
	return nil
}

func checkResourceTags(value any) error {
	for key := range value.(map[string]string) {
		for _, reserved := range []string{"juju-", "slipway-"} {
			if strings.HasPrefix(key, reserved) {
				return errors.Errorf("tag %q uses the reserved prefix %q", key, reserved)
			}
		}
	}
	return nil
}

// between accepts numbers from low to high.
func between(low, high int) func(any) error {
	return func(value any) error {
		if n := value.(int); n < low || n > high {
			return errors.Errorf("want a number from %d to %d", low, high)
		}
		return nil
	}
}
