package config

import (
	"strings"
	"time"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/binaries"
)

// HarvestMode says which instances a provisioner stops.
type HarvestMode string

// The harvest modes. Instances that are known to belong to another model or
// site, or to nobody, are left alone in every mode.
const (
	HarvestNone      HarvestMode = "none"
	HarvestUnknown   HarvestMode = "unknown"   // this model's instances without a machine
	HarvestDestroyed HarvestMode = "destroyed" // instances of dead machines
	HarvestAll       HarvestMode = "all"       // both
)

func harvestModes() []string {
	return []string{string(HarvestNone), string(HarvestUnknown), string(HarvestDestroyed), string(HarvestAll)}
}

// Destroyed reports whether instances of dead machines are stopped.
func (m HarvestMode) Destroyed() bool { return m == HarvestDestroyed || m == HarvestAll }

// Unknown reports whether instances without a machine are stopped.
func (m HarvestMode) Unknown() bool { return m == HarvestUnknown || m == HarvestAll }

// value returns a setting of the table, set or by default.
func (c *Config) value(name string) any {
	f, _ := Fields().Field(name)
	return valueIn(f, c.set)
}

func (c *Config) text(name string) string { return Attrs{name: c.value(name)}.String(name) }
func (c *Config) bool(name string) bool   { return Attrs{name: c.value(name)}.Bool(name) }
func (c *Config) int(name string) int     { return Attrs{name: c.value(name)}.Int(name) }

// Name returns the model's name.
func (c *Config) Name() string { return c.set.String(Name) }

// Type returns the name of the model's provider.
func (c *Config) Type() string { return c.set.String(Type) }

// UUID returns the model's UUID.
func (c *Config) UUID() string { return c.set.String(UUID) }

// AgentStream returns where agent versions are taken from.
func (c *Config) AgentStream() string { return c.orDefault(AgentStream) }

// ImageStream returns where machine images are taken from.
func (c *Config) ImageStream() string { return c.orDefault(ImageStream) }

// orDefault takes an empty setting for its default.
func (c *Config) orDefault(name string) string {
	if s := c.text(name); s != "" {
		return s
	}
	f, _ := Fields().Field(name)
	s, _ := f.value().(string)
	return s
}

// AgentDowngrade reports whether agents that are newer than AgentVersion are to
// go back to it.
func (c *Config) AgentDowngrade() bool { return c.bool(AgentDowngrade) }

// AgentVersion returns the version that the model's agents run; false if none
// is set.
func (c *Config) AgentVersion() (binaries.Number, bool) {
	n, err := binaries.ParseNumber(c.set.String(AgentVersion))
	return n, err == nil
}

// AuthorizedKeys returns the SSH keys for machines, one a line; may be empty.
func (c *Config) AuthorizedKeys() string { return c.text(AuthorizedKeys) }

// AptMirror returns the mirror for packages; empty means the usual.
func (c *Config) AptMirror() string { return c.text(AptMirror) }

// CloudInitUserData returns more user data for new machines, a YAML mapping;
// may be empty.
func (c *Config) CloudInitUserData() string { return c.text(CloudInitUserData) }

// DefaultBase returns the base of machines that name none.
func (c *Config) DefaultBase() base.Base {
	return baseOf(c.set.String(DefaultBase), c.set.String(DefaultSeries))
}

// baseOf returns the base that the two settings, already checked, name.
func baseOf(text, series string) base.Base {
	if b, err := base.Parse(text); err == nil {
		return b
	}
	if b, err := base.FromSeries(series); err == nil {
		return b
	}
	return base.Default()
}

// Development reports whether agent versions under development may be used.
func (c *Config) Development() bool { return c.bool(Development) }

// EnableOSRefreshUpdate reports whether new machines refresh their list of
// packages.
func (c *Config) EnableOSRefreshUpdate() bool { return c.bool(EnableOSRefreshUpdate) }

// EnableOSUpgrade reports whether new machines upgrade their packages.
func (c *Config) EnableOSUpgrade() bool { return c.bool(EnableOSUpgrade) }

// FirewallMode returns instance, global or none.
func (c *Config) FirewallMode() string { return c.orDefault(FirewallMode) }

// HarvestMode returns which instances the provisioner stops.
func (c *Config) HarvestMode() HarvestMode { return HarvestMode(c.orDefault(HarvestModeKey)) }

// LoggingConfig returns what agents log.
func (c *Config) LoggingConfig() string { return c.text(LoggingConfig) }

// ProvisionWorkers returns how many machines may be started at once, at least
// 1.
func (c *Config) ProvisionWorkers() int { return c.int(ProvisionWorkers) }

// ResourceTags returns the tags that people want on every instance. The map is
// the caller's own and may be nil.
func (c *Config) ResourceTags() map[string]string {
	return Attrs{ResourceTags: c.value(ResourceTags)}.Tags(ResourceTags)
}

// StorageBlockSource returns the storage pool, or type of storage, of volumes that are asked
// for without one; empty means the provider's own.
func (c *Config) StorageBlockSource() string { return c.text(StorageBlockSource) }

// RetryCount returns how many more times a failed start is tried; may be 0.
func (c *Config) RetryCount() int { return c.int(RetryCount) }

// RetryDelay returns how long to wait before the first retry; may be 0.
func (c *Config) RetryDelay() time.Duration {
	return Attrs{RetryDelay: c.value(RetryDelay)}.Duration(RetryDelay)
}

// SSLHostnameVerification reports whether machines check the host names of TLS
// servers.
func (c *Config) SSLHostnameVerification() bool { return c.bool(SSLVerification) }

// Proxies are the proxies of a machine; an empty one means none.
type Proxies struct {
	HTTP, HTTPS, FTP string
	NoProxy          string // hosts, separated by commas
}

// Proxies returns the proxies for everything but packages.
func (c *Config) Proxies() Proxies {
	return Proxies{HTTP: c.text(HTTPProxy), HTTPS: c.text(HTTPSProxy), FTP: c.text(FTPProxy), NoProxy: c.text(NoProxy)}
}

// AptProxies returns the proxies for packages: each is its own setting, else
// the one for everything; one without a scheme gets one. NoProxy is always
// empty.
func (c *Config) AptProxies() Proxies {
	pick := func(own, general, scheme string) string {
		p := c.text(own)
		if p == "" {
			p = c.text(general)
		}
		if p != "" && !strings.Contains(p, "://") {
			p = scheme + "://" + p
		}
		return p
	}
	return Proxies{
		HTTP:  pick(AptHTTPProxy, HTTPProxy, "http"),
		HTTPS: pick(AptHTTPSProxy, HTTPSProxy, "https"),
		FTP:   pick(AptFTPProxy, FTPProxy, "ftp"),
	}
}
