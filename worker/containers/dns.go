package containers

import (
	"bufio"
	"net/netip"
	"os"
	"strings"

	"github.com/slipway-project/slipway/core/network"
)

// resolvFiles say which DNS servers a machine asks, the best first:
// systemd-resolved writes those that it asks itself to the first, and its own
// address to the other.
var resolvFiles = []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"}

// Resolvers returns the DNS servers that this machine asks and that others can ask
// as well; none if it asks only itself.
func Resolvers() []string { return resolvers(resolvFiles) }

func resolvers(files []string) []string {
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the next may be there
		}
		if found := nameservers(string(text)); len(found) > 0 {
			return found
		}
	}
	return nil
}

// nameservers reads a file as resolv.conf(5) describes it.
func nameservers(text string) []string {
	var out []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err == nil && a.Zone() == "" && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			out = append(out, a.String())
		}
	}
	return out
}

// named returns interfaces that lead to DNS servers: the host's, where nobody said
// which.
func (c Config) named(given []network.Interface) []network.Interface {
	if len(given) == 0 || c.Resolvers == nil {
		return given
	}
	out := make([]network.Interface, len(given))
	for n, i := range given {
		if len(i.DNSServers) == 0 {
			i.DNSServers = c.Resolvers()
		}
		out[n] = i
	}
	return out
}
