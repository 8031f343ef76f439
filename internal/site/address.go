package site

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

// advertised reads an advertised address, host or host:port, which has the
// server's own port if it names none.
func advertised(text string, port int) (network.HostPort, error) {
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return network.HostPort{}, errors.NewNotValid(nil, fmt.Sprintf("cannot advertise %q: give HOST or HOST:PORT", text))
		}
		host, port = h, n
	}
	if host == "" {
		return network.HostPort{}, errors.NewNotValid(nil, fmt.Sprintf("cannot advertise %q: give HOST or HOST:PORT", text))
	}
	return network.HostPort{Address: published(host), Port: port}, nil
}

// published returns an address as the server publishes it. A loopback address
// is published as reachable, since a site that listens on nothing else has all
// its clients on one machine.
func published(host string) network.Address {
	a := network.NewAddress(host)
	if a.Scope == network.ScopeMachineLocal {
		a.Scope = network.ScopeCloudLocal
	}
	return a
}

// servers returns where a server that listens on an address can be reached.
// Actual is the port it got; 0 means the one it asked for.
func servers(listen string, advertise []string, actual int) []network.HostPort {
	host, port, err := splitListen(listen)
	if err != nil {
		return nil
	}
	if actual != 0 {
		port = actual
	}
	var out []network.HostPort
	for _, text := range advertise {
		if hp, err := advertised(text, port); err == nil {
			out = append(out, hp)
		}
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		out = append(out, network.HostPort{Address: published(host), Port: port})
	} else if len(out) == 0 {
		// It listens everywhere and nobody said under which name.
		for _, ip := range localAddresses() {
			out = append(out, network.HostPort{Address: published(ip), Port: port})
		}
	}
	return out
}

// localAddresses returns this machine's addresses that others may reach, and
// the loopback address if there are none.
func localAddresses() []string {
	var out []string
	addrs, _ := net.InterfaceAddrs() // without them, loopback is all there is
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	if len(out) == 0 {
		out = append(out, "127.0.0.1")
	}
	return out
}

// endpoints is servers as host:port texts, each once.
func endpoints(listen string, advertise []string, actual int) []string {
	var out []string
	for _, s := range servers(listen, advertise, actual) {
		if text := net.JoinHostPort(s.Value, strconv.Itoa(s.Port)); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// hosts returns the names that the server's certificate is for.
func hosts(s Settings) []string {
	var names []string
	for _, server := range servers(s.Listen, s.Advertise, 1) {
		names = append(names, server.Value)
	}
	return tlsfiles.Hosts(names...)
}
