package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/juju/errors"
)

// Boot is what an installer knows before it has spoken to anyone: the file
// slipway.json on its medium. It names the controller, proves by a token that
// this boot was ordered, and says how to reach the network.
type Boot struct {
	Server  string  `json:"server"`            // base URL of the installer's endpoints
	CA      string  `json:"ca,omitempty"`      // PEM of the only authorities believed; "" believes the initramfs's own
	Host    string  `json:"host"`              // name of the host's record
	Number  int     `json:"boot"`              // boots of this order, from 1
	Token   Secret  `json:"token"`             // good for one exchange
	Network Network `json:"network,omitzero"`  // the zero value: DHCP on every port with link
	Rescue  Rescue  `json:"rescue,omitzero"`   // until the machine config brings its own
	Console string  `json:"console,omitempty"` // device of a second console, such as ttyS1
	// Watchdog is the longest silence of the installer before the hardware
	// watchdog resets the machine; 0 means 2 minutes.
	Watchdog time.Duration `json:"watchdog,omitempty"`
	// Insecure allows a token over plain HTTP to a host other than this one.
	Insecure bool `json:"insecure,omitempty"`
}

// Network says how the installer reaches the controller. Bonds are made first,
// then VLANs, then addresses are given. With no address at all, DHCP is asked on
// every port that has a link, or on the bonds and VLANs if there are any.
type Network struct {
	Bonds   []Bond    `json:"bonds,omitempty"`
	VLANs   []VLAN    `json:"vlans,omitempty"`
	Static  []Address `json:"static,omitempty"`
	DNS     []string  `json:"dns,omitempty"`
	MTU     int       `json:"mtu,omitempty"`     // of all ports; 0 leaves it
	Timeout Seconds   `json:"timeout,omitempty"` // for a working network; 0 means 300
}

// Seconds is a time limit in whole seconds.
type Seconds int

// Duration returns s, or otherwise when s is 0.
func (s Seconds) Duration(otherwise time.Duration) time.Duration {
	if s <= 0 {
		return otherwise
	}
	return time.Duration(s) * time.Second
}

// Bond joins ports. A member is named by interface name or by MAC address.
type Bond struct {
	Name    string   `json:"name"`
	Members []string `json:"members"`
	Mode    string   `json:"mode,omitempty"` // as Linux names them; "" means 802.3ad
}

// VLAN is a tagged network on a port or bond.
type VLAN struct {
	ID     int    `json:"id"`     // 1 to 4094
	Parent string `json:"parent"` // interface name or MAC address
}

// Address is one static address.
type Address struct {
	Link    string `json:"link"`              // interface name, MAC address, or "parent.ID" of a VLAN
	Address string `json:"address"`           // with its prefix length, IPv4 or IPv6
	Gateway string `json:"gateway,omitempty"` // "" adds no default route
}

// bondModes are the modes by the names and numbers of the kernel's bonding driver.
var bondModes = map[string]int{
	"balance-rr": 0, "active-backup": 1, "balance-xor": 2, "broadcast": 3,
	"802.3ad": 4, "balance-tlb": 5, "balance-alb": 6,
}

// ModeNumber returns the kernel's number of the bond's mode, or an error
// satisfying errors.NotValid.
func (b Bond) ModeNumber() (int, error) {
	if b.Mode == "" {
		return bondModes["802.3ad"], nil
	}
	n, ok := bondModes[b.Mode]
	if !ok {
		return 0, errors.NotValidf("bond mode %q", b.Mode)
	}
	return n, nil
}

var linkName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,17}$`)

// Validate returns an error satisfying errors.NotValid that names the first
// thing wrong.
func (n *Network) Validate() error {
	for _, b := range n.Bonds {
		if !linkName.MatchString(b.Name) || len(b.Members) == 0 {
			return errors.NotValidf("bond %q of %d members", b.Name, len(b.Members))
		}
		if _, err := b.ModeNumber(); err != nil {
			return err
		}
	}
	for _, v := range n.VLANs {
		if v.ID < 1 || v.ID > 4094 || !linkName.MatchString(v.Parent) {
			return errors.NotValidf("VLAN %d on %q (want an id of 1 to 4094)", v.ID, v.Parent)
		}
	}
	for _, a := range n.Static {
		p, err := netip.ParsePrefix(a.Address)
		if err != nil || !linkName.MatchString(a.Link) {
			return errors.NotValidf("static address %q on %q (want address/prefix)", a.Address, a.Link)
		}
		if a.Gateway == "" {
			continue
		}
		gw, err := netip.ParseAddr(a.Gateway)
		if err != nil || gw.Is4() != p.Addr().Is4() {
			return errors.NotValidf("gateway %q of %s", a.Gateway, a.Address)
		}
	}
	for _, d := range n.DNS {
		if _, err := netip.ParseAddr(d); err != nil {
			return errors.NotValidf("name server %q (want an IP address)", d)
		}
	}
	return nil
}

// Validate returns an error satisfying errors.NotValid that names the first
// thing wrong.
func (b *Boot) Validate() error {
	u, err := url.Parse(b.Server)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.NotValidf("server %q of the boot file (want an https URL)", RedactURL(b.Server))
	}
	if strings.TrimSpace(b.Host) == "" || b.Token == "" {
		return errors.NotValidf("boot file without a host and a token")
	}
	return b.Network.Validate()
}
