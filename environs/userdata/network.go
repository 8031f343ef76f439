package userdata

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/core/network"
)

// NetworkConfig returns what cloud-init is told of an instance's interfaces, in
// version 2 of its format. Each interface is found by its MAC address, whatever the
// image calls it, and has one address and, if there is a gateway, the way to
// everywhere else. Its errors satisfy errors.NotValid.
func NetworkConfig(interfaces []network.Interface) ([]byte, error) {
	ethernets := mapping{}
	for _, i := range interfaces {
		l, err := linkOf(i)
		if err != nil {
			return nil, err
		}
		one := mapping{"match": mapping{"macaddress": l.mac}, "addresses": []string{l.address.String()}}
		if i.MTU > 0 {
			one["mtu"] = i.MTU
		}
		if l.gateway.IsValid() {
			route := mapping{"to": anywhere(l.gateway), "via": l.gateway.String()}
			if !l.near() {
				route["on-link"] = true
			}
			one["routes"] = []any{route}
		}
		if len(i.DNSServers) > 0 {
			one["nameservers"] = mapping{"addresses": i.DNSServers}
		}
		ethernets[i.Name] = one
	}
	out, err := yaml.Marshal(mapping{"version": 2, "ethernets": ethernets})
	return out, errors.Annotate(err, "cannot write network configuration")
}

// NetworkFiles returns the same for images without cloud-init: a file for each
// interface that systemd-networkd prefers to those of the image. See
// systemd.network(5). Its errors satisfy errors.NotValid.
func NetworkFiles(interfaces []network.Interface) ([]File, error) {
	var files []File
	for _, i := range interfaces {
		l, err := linkOf(i)
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "[Match]\nMACAddress=%s\n\n", l.mac)
		if i.MTU > 0 {
			fmt.Fprintf(&text, "[Link]\nMTUBytes=%d\n\n", i.MTU)
		}
		fmt.Fprintf(&text, "[Network]\nAddress=%s\n", l.address)
		for _, server := range i.DNSServers {
			fmt.Fprintf(&text, "DNS=%s\n", server)
		}
		if l.gateway.IsValid() {
			fmt.Fprintf(&text, "\n[Route]\nGateway=%s\n", l.gateway)
			if !l.near() {
				text.WriteString("GatewayOnLink=yes\n")
			}
		}
		// The first of a folder's files that matches is used alone; images
		// have names that begin with 10 or with a letter.
		files = append(files, File{Path: "/etc/systemd/network/05-slipway-" + i.Name + ".network", Mode: 0o644, Content: []byte(text.String())})
	}
	return files, nil
}

// link is what an interface says, read and checked.
type link struct {
	mac     string
	address netip.Prefix
	gateway netip.Addr // the zero value means none
}

// near reports whether the gateway is in the interface's own network.
func (l link) near() bool { return l.address.Contains(l.gateway) }

// anywhere returns all addresses that are written as one is.
func anywhere(a netip.Addr) string {
	if a.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// linkOf reads an interface, of which nothing else is let into a file.
func linkOf(i network.Interface) (link, error) {
	var l link
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return l, errors.NotValidf("network interface %q: MAC address %q", i.Name, i.MAC)
	}
	l.mac = mac.String()
	subnet, err := network.ParseCIDR(i.CIDR)
	if err != nil {
		return l, errors.Annotatef(err, "network interface %q", i.Name)
	}
	address, err := netip.ParseAddr(i.Address)
	if err != nil || !subnet.Contains(address) {
		return l, errors.NotValidf("network interface %q: address %q (want one in %s)", i.Name, i.Address, subnet)
	}
	l.address = netip.PrefixFrom(address, subnet.Bits())
	if i.Gateway != "" {
		if l.gateway, err = netip.ParseAddr(i.Gateway); err != nil || l.gateway.Is4() != address.Is4() {
			return l, errors.NotValidf("network interface %q: gateway %q of address %s", i.Name, i.Gateway, address)
		}
	}
	for _, server := range i.DNSServers {
		if _, err := netip.ParseAddr(server); err != nil {
			return l, errors.NotValidf("network interface %q: DNS server %q", i.Name, server)
		}
	}
	if i.Name == "" || strings.ContainsAny(i.Name, "/ \t\r\n") {
		return l, errors.NotValidf("network interface name %q", i.Name)
	}
	return l, nil
}
