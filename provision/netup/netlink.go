package netup

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/juju/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Netlink acts on the network of the machine it runs on. Only an installer may use it.
type Netlink struct{}

var _ Links = Netlink{}

// Ports implements Links: a port has a device below it in sysfs.
func (Netlink) Ports() ([]Port, error) {
	dirs, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil {
		return nil, errors.Trace(err)
	}
	var out []Port
	for _, d := range dirs {
		dir := filepath.Dir(d)
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(b))
		}
		out = append(out, Port{Name: filepath.Base(dir), MAC: read("address"), Link: read("carrier") == "1"})
	}
	return out, nil
}

// Up implements Links.
func (Netlink) Up(name string, mtu int) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return errors.Annotatef(err, "cannot find %s", name)
	}
	if mtu > 0 && l.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			return errors.Annotatef(err, "cannot set MTU of %s", name)
		}
	}
	return errors.Annotatef(netlink.LinkSetUp(l), "cannot switch on %s", name)
}

// Make implements Links.
func (n Netlink) Make(v Virtual) error {
	if len(v.Members) > 0 {
		return n.bond(v)
	}
	parent, err := netlink.LinkByName(v.Parent)
	if err != nil {
		return errors.Annotatef(err, "cannot find %s", v.Parent)
	}
	err = netlink.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: v.Name, ParentIndex: parent.Attrs().Index}, VlanId: v.ID})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return errors.Annotatef(err, "cannot make %s", v.Name)
}

// bond makes a bond. A member must be down to join.
func (Netlink) bond(v Virtual) error {
	b := netlink.NewLinkBond(netlink.LinkAttrs{Name: v.Name})
	b.Mode, b.Miimon = netlink.BondMode(v.Mode), 100
	if b.Mode == netlink.BOND_MODE_802_3AD {
		b.LacpRate, b.XmitHashPolicy = netlink.BOND_LACP_RATE_FAST, netlink.BOND_XMIT_HASH_POLICY_LAYER3_4
	}
	if err := netlink.LinkAdd(b); err != nil && !errors.Is(err, unix.EEXIST) {
		return errors.Annotatef(err, "cannot make %s", v.Name)
	}
	master, err := netlink.LinkByName(v.Name)
	if err != nil {
		return errors.Annotatef(err, "cannot find %s", v.Name)
	}
	for _, name := range v.Members {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return errors.Annotatef(err, "cannot find %s", name)
		}
		if l.Attrs().MasterIndex == master.Attrs().Index {
			continue
		}
		if err := netlink.LinkSetDown(l); err != nil {
			return errors.Annotatef(err, "cannot switch off %s", name)
		}
		if err := netlink.LinkSetMaster(l, master); err != nil {
			return errors.Annotatef(err, "cannot add %s to %s", name, v.Name)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return errors.Annotatef(err, "cannot switch on %s", name)
		}
	}
	return nil
}

// Assign implements Links.
func (Netlink) Assign(name string, address netip.Prefix, gateway netip.Addr) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return errors.Annotatef(err, "cannot find %s", name)
	}
	bits := 8 * len(address.Addr().AsSlice())
	a := &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), bits)}}
	if address.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // the address is to be used at once
	}
	if err := netlink.AddrReplace(l, a); err != nil {
		return errors.Annotatef(err, "cannot give %s the address %s", name, address)
	}
	if !gateway.IsValid() {
		return nil
	}
	route := &netlink.Route{LinkIndex: l.Attrs().Index, Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	return errors.Annotatef(netlink.RouteReplace(route), "cannot route by %s", gateway)
}

// DHCP implements Links, for IPv4.
func (Netlink) DHCP(ctx context.Context, name string) (Lease, error) {
	c, err := nclient4.New(name)
	if err != nil {
		return Lease{}, errors.Annotate(err, "cannot ask for a lease")
	}
	defer func() { _ = c.Close() }()
	lease, err := c.Request(ctx, dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList))
	if err != nil {
		return Lease{}, errors.Annotate(err, "cannot get a lease")
	}
	return leaseOf(lease.ACK)
}

// leaseOf reads a server's answer.
func leaseOf(ack *dhcpv4.DHCPv4) (Lease, error) {
	addr, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || addr.IsUnspecified() {
		return Lease{}, errors.NotValidf("lease without an address")
	}
	if bits == 0 {
		ones = 24 // no mask, or none that is one
	}
	l := Lease{Address: netip.PrefixFrom(addr, ones)}
	if r := ack.Router(); len(r) > 0 {
		l.Gateway, _ = netip.AddrFromSlice(r[0].To4())
	}
	for _, d := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(d.To4()); ok {
			l.DNS = append(l.DNS, a)
		}
	}
	if s := ack.DomainSearch(); s != nil {
		l.Search = s.Labels
	} else if d := strings.TrimRight(ack.DomainName(), "\x00"); d != "" && !strings.ContainsAny(d, " \t\n\r") {
		l.Search = []string{d}
	}
	for _, s := range l.Search {
		if strings.ContainsAny(s, " \t\n\r") {
			l.Search = nil // a name with a blank would be two, or a line of its own
			break
		}
	}
	return l, nil
}
