package provision

import (
	"os"
	"strings"

	"github.com/slipway-project/slipway/provision/config"
)

// ConfigureDNS writes resolv.conf to the chroot, or where something of the
// installed system writes that file (systemd-resolved, NetworkManager, netconfig) that
// something's own configuration, so that the first boot does not undo it.
// Without name servers, or without an /etc, nothing is done.
func (c *Configurator) ConfigureDNS(cfg *config.MachineConfig) error {
	if len(cfg.DNS) == 0 {
		return nil
	}
	if !c.exists("etc") {
		logger.Warningf("name servers are not configured: the installed system has no /etc")
		return nil
	}
	written := false
	if c.resolved() {
		text := "[Resolve]\nDNS=" + strings.Join(cfg.DNS, " ") + "\n"
		if len(cfg.Search) > 0 {
			text += "Domains=" + strings.Join(cfg.Search, " ") + "\n"
		}
		if err := c.write("etc/systemd/resolved.conf.d/10-slipway.conf", text, 0o644); err != nil {
			return err
		}
		written = true
	}
	if c.has("NetworkManager") != "" {
		text := "[global-dns]\n"
		if len(cfg.Search) > 0 {
			text += "searches=" + strings.Join(cfg.Search, ",") + "\n"
		}
		text += "\n[global-dns-domain-*]\nservers=" + strings.Join(cfg.DNS, ",") + "\n"
		if err := c.write("etc/NetworkManager/conf.d/10-slipway-dns.conf", text, 0o644); err != nil {
			return err
		}
	}
	const netconfig = "etc/sysconfig/network/config"
	if old, err := c.read(netconfig); err == nil {
		text := setVariable(old, "NETCONFIG_DNS_STATIC_SERVERS", strings.Join(cfg.DNS, " "))
		if len(cfg.Search) > 0 {
			text = setVariable(text, "NETCONFIG_DNS_STATIC_SEARCHLIST", strings.Join(cfg.Search, " "))
		}
		if err := c.write(netconfig, text, 0o644); err != nil {
			return err
		}
	}
	if written {
		return nil
	}
	var text strings.Builder
	if len(cfg.Search) > 0 {
		text.WriteString("search " + strings.Join(cfg.Search, " ") + "\n")
	}
	for _, server := range cfg.DNS {
		text.WriteString("nameserver " + server + "\n")
	}
	return c.write("etc/resolv.conf", text.String(), 0o644)
}

// resolved reports whether systemd-resolved gives the installed system its resolv.conf.
func (c *Configurator) resolved() bool {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	target, err := root.Readlink("etc/resolv.conf")
	return err == nil && strings.Contains(target, "systemd/resolve")
}

// setVariable sets KEY="value" in a file of shell assignments: the last
// assignment is replaced, earlier ones stay, a missing one is added at the end.
func setVariable(text, key, value string) string {
	line := key + `="` + quoteShell(value) + `"`
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if name, _, ok := strings.Cut(strings.TrimSpace(lines[i]), "="); ok && strings.TrimPrefix(name, "export ") == key {
			lines[i] = line
			return strings.Join(lines, "\n") + "\n"
		}
	}
	if text == "" {
		return line + "\n"
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

// quoteShell escapes s for use between double quotes.
func quoteShell(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s)
}
