package network

import (
	"net/netip"
	"regexp"

	"github.com/juju/errors"
)

// Space is a set of subnets from which machines reach one another alike.
type Space struct {
	Name       string `json:"name"`
	ProviderID string `json:"provider-id,omitempty"`
	Public     bool   `json:"public,omitempty"` // whether it can be reached from outside
}

// Subnet is a range of addresses on one network.
type Subnet struct {
	CIDR       string   `json:"cidr"` // as ParseCIDR returns it
	ProviderID string   `json:"provider-id,omitempty"`
	Space      string   `json:"space"` // a name
	VLANTag    int      `json:"vlan-tag,omitempty"`
	Zones      []string `json:"zones,omitempty"` // in which it exists

	// Low and High are the first and the last address that may be given to
	// containers; both or none.
	Low  string `json:"low,omitempty"`
	High string `json:"high,omitempty"`
}

// Interface is a network interface as its machine has it, with at most one
// address.
type Interface struct {
	Name           string   `json:"name"`
	Index          int      `json:"index"`
	MAC            string   `json:"mac,omitempty"`
	Type           string   `json:"type,omitempty"` // empty means ethernet
	CIDR           string   `json:"cidr,omitempty"`
	Address        string   `json:"address,omitempty"`
	Gateway        string   `json:"gateway,omitempty"` // to everywhere else; empty means none, or unknown
	MTU            int      `json:"mtu,omitempty"`     // bytes; 0 means unknown
	ProviderID     string   `json:"provider-id,omitempty"`
	ProviderSubnet string   `json:"provider-subnet,omitempty"`
	VLANTag        int      `json:"vlan-tag,omitempty"`
	Disabled       bool     `json:"disabled,omitempty"`
	NoAutoStart    bool     `json:"no-auto-start,omitempty"`
	DNSServers     []string `json:"dns-servers,omitempty"`
}

var spaceName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// maxSpaceName is how long a space's name may be.
const maxSpaceName = 63

// CheckSpaceName returns an error satisfying errors.NotValid unless name can be
// the name of a space: lower-case letters, digits, and single hyphens inside.
func CheckSpaceName(name string) error {
	if len(name) > maxSpaceName || !spaceName.MatchString(name) {
		return errors.NotValidf("space name %q (use lower-case letters, digits and hyphens)", name)
	}
	return nil
}

// ParseCIDR reads the range of a subnet, such as 10.0.0.0/24. It returns an error
// satisfying errors.NotValid for anything else, and for addresses with bits
// beyond the prefix.
func ParseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, errors.NotValidf("subnet %q (use a form such as 10.0.0.0/24)", text)
	}
	if p != p.Masked() {
		return netip.Prefix{}, errors.NotValidf("subnet %q (did you mean %s?)", text, p.Masked())
	}
	return p, nil
}

// Check returns an error satisfying errors.NotValid unless the subnet makes
// sense in itself.
func (s Subnet) Check() error {
	p, err := ParseCIDR(s.CIDR)
	if err != nil {
		return err
	}
	if err := CheckSpaceName(s.Space); err != nil {
		return err
	}
	if s.VLANTag < 0 || s.VLANTag > 4094 {
		return errors.NotValidf("VLAN tag %d (use 0 to 4094)", s.VLANTag)
	}
	if s.Low == "" && s.High == "" {
		return nil
	}
	low, err := netip.ParseAddr(s.Low)
	if err != nil {
		return errors.NotValidf("first address %q of subnet %s", s.Low, s.CIDR)
	}
	high, err := netip.ParseAddr(s.High)
	if err != nil {
		return errors.NotValidf("last address %q of subnet %s", s.High, s.CIDR)
	}
	if !p.Contains(low) || !p.Contains(high) || high.Less(low) {
		return errors.NotValidf("range %s to %s of subnet %s", low, high, s.CIDR)
	}
	return nil
}
