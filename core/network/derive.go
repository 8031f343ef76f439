package network

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// NewAddress returns the address that value writes, with the type and scope
// that can be told from its text.
func NewAddress(value string) Address {
	return Address{Value: value, Type: DeriveType(value), Scope: DeriveScope(value)}
}

// NewAddresses is NewAddress for several values.
func NewAddresses(values ...string) []Address {
	out := make([]Address, len(values))
	for i, v := range values {
		out[i] = NewAddress(v)
	}
	return out
}

// DeriveType tells how value is written. Whatever is not an IP address is
// taken for a host name.
func DeriveType(value string) AddressType {
	ip, err := netip.ParseAddr(value)
	switch {
	case err != nil:
		return HostName
	case ip.Is4():
		return IPv4
	}
	return IPv6
}

// DeriveScope tells from where value can be reached: loopback addresses from
// the machine itself, link-local ones from the link, private ones (RFC 1918,
// RFC 4193) from the site, and all others from everywhere. The scope of a host
// name is unknown.
func DeriveScope(value string) Scope {
	ip, err := netip.ParseAddr(value)
	if err != nil {
		return ScopeUnknown
	}
	ip = ip.Unmap()
	switch {
	case ip.IsLoopback():
		return ScopeMachineLocal
	case ip.IsLinkLocalUnicast(), ip.IsLinkLocalMulticast(), ip.IsInterfaceLocalMulticast():
		return ScopeLinkLocal
	case ip.IsPrivate():
		return ScopeCloudLocal
	}
	return ScopePublic
}

// String returns the address as it is written.
func (a Address) String() string { return a.Value }

// String returns "host:port", with brackets around an IPv6 address.
func (hp HostPort) String() string {
	return net.JoinHostPort(hp.Value, strconv.Itoa(hp.Port))
}

// ParseHostPort reads "host:port"; an IPv6 address needs brackets. The port is
// a number from 1 to 65535. It returns an error satisfying errors.NotValid.
func ParseHostPort(text string) (HostPort, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsAny(host, " \t\r\n/") {
		return HostPort{}, errors.NotValidf("address %q, want host:port,", text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return HostPort{}, errors.NotValidf("port in address %q", text)
	}
	return HostPort{Address: NewAddress(host), Port: int(n)}, nil
}

// ParseHostPorts is ParseHostPort for several texts; the first that is wrong
// fails them all.
func ParseHostPorts(texts ...string) ([]HostPort, error) {
	out := make([]HostPort, len(texts))
	for i, text := range texts {
		hp, err := ParseHostPort(text)
		if err != nil {
			return nil, err
		}
		out[i] = hp
	}
	return out, nil
}

// rank says how well an address serves someone outside: the lower, the
// better.
func rank(a Address) int {
	scopes := []Scope{ScopePublic, ScopeUnknown, ScopeCloudLocal, ScopeMachineLocal, ScopeLinkLocal}
	types := []AddressType{IPv4, HostName, IPv6}
	s, t := slices.Index(scopes, a.Scope), slices.Index(types, a.Type)
	if s < 0 {
		s = len(scopes)
	}
	if t < 0 {
		t = len(types)
	}
	return s*10 + t
}

// Sort orders addresses by how well they serve someone outside: public ones
// first and link-local ones last, IPv4 before names before IPv6, then by
// value. It sorts in place.
func Sort(addresses []Address) {
	slices.SortStableFunc(addresses, func(a, b Address) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Value, b.Value))
	})
}

// Merge returns the addresses that the provider knows of followed by those
// that the machine reported, without a value twice.
func Merge(provider, machine []Address) []Address {
	out := make([]Address, 0, len(provider)+len(machine))
	seen := map[string]bool{}
	for _, a := range slices.Concat(provider, machine) {
		if !seen[a.Value] {
			seen[a.Value] = true
			out = append(out, a)
		}
	}
	return out
}

// first returns the first address with the first of scopes that any address
// has.
func first(addresses []Address, scopes ...Scope) (Address, bool) {
	for _, typed := range []bool{true, false} { // IPv4 and names before IPv6
		for _, s := range scopes {
			for _, a := range addresses {
				if a.Scope == s && (a.Type != IPv6) == typed {
					return a, true
				}
			}
		}
	}
	return Address{}, false
}

// PreferredPublic returns the address to tell people outside: a public one,
// else one of unknown scope, else a private one. The provider's addresses come
// before the machine's in the list, so they are preferred. It reports false if
// none will do.
func PreferredPublic(addresses []Address) (Address, bool) {
	return first(addresses, ScopePublic, ScopeUnknown, ScopeCloudLocal)
}

// PreferredPrivate returns the address to tell other machines of the site: a
// private one, else one of unknown scope, else a public one. It reports false
// if none will do.
func PreferredPrivate(addresses []Address) (Address, bool) {
	return first(addresses, ScopeCloudLocal, ScopeUnknown, ScopePublic)
}
