package bmc

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// Address is a parsed BMC address.
type Address struct {
	Driver    Driver
	Transport string // "http" or "https"; "" for IPMI
	Host      string // without brackets
	Port      int    // 0: the default
	Path      string // begins with "/" and does not end with one; "" means: the only system
	// PrivilegeLevel is for IPMI; empty: the back end's default.
	PrivilegeLevel string
}

// maxAddress bounds an address, in bytes; the longest DNS name has 253.
const maxAddress = 1024

// Parse reads an address in the grammar of the package comment. Its errors are
// one line each; they satisfy errors.NotSupported if the scheme is unknown and
// errors.NotValid otherwise.
func Parse(address string) (Address, error) {
	a, err := parse(strings.TrimSpace(address))
	if err == nil {
		return a, nil
	}
	line := fmt.Sprintf("BMC address %s: %v", quote(address), err)
	if errors.Is(err, errors.NotSupported) {
		return Address{}, errors.NewNotSupported(nil, line)
	}
	return Address{}, errors.NewNotValid(nil, line)
}

// quote returns address for an error message: short, printable and without
// what may be a password.
func quote(address string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		scheme, _, ok := strings.Cut(address[:i], "://")
		if !ok || len(scheme) > 30 {
			scheme = "..."
		}
		address = scheme + "://" + redacted + address[i:]
	}
	if i := strings.IndexByte(address, '?'); i >= 0 {
		address = address[:i] + "?..."
	}
	if len(address) > 120 {
		address = address[:120] + "..."
	}
	return strconv.QuoteToASCII(address)
}

// parse does the work of Parse; its errors lack the address.
func parse(address string) (Address, error) {
	switch {
	case address == "":
		return Address{}, errors.New("it is empty; want e.g. redfish://192.0.2.1/redfish/v1/Systems/1")
	case len(address) > maxAddress:
		return Address{}, errors.Errorf("it has more than %d bytes", maxAddress)
	case strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return Address{}, errors.New("it has blanks or control characters")
	case strings.Contains(address, "@"):
		return Address{}, errors.New("user name and password do not belong here; give them as credentials")
	}
	scheme, rest := split(address)
	a, err := schemed(scheme)
	if err != nil {
		return Address{}, err
	}
	u, err := url.Parse("x://" + rest)
	if err != nil {
		return Address{}, errors.New("not a URL: " + reason(err))
	}
	if u.Fragment != "" || strings.HasSuffix(rest, "#") {
		return Address{}, errors.New("it has a #fragment")
	}
	if a.Host, err = checkHost(u); err != nil {
		return Address{}, err
	}
	if a.Port, err = checkPort(u.Host, u.Port()); err != nil {
		return Address{}, err
	}
	if a.Path, err = checkPath(u); err != nil {
		return Address{}, err
	}
	if a.Driver.Family == FamilyIPMI && a.Path != "" {
		return Address{}, errors.Errorf("an %s address has no path", a.Driver.Scheme)
	}
	return a, a.setQuery(u)
}

// split cuts an address into its scheme and the rest; without a scheme it is
// "ipmi".
func split(address string) (scheme, rest string) {
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		return scheme, rest
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return "ipmi", "[" + address + "]"
	}
	scheme, rest, ok := strings.Cut(address, ":")
	if !ok || strings.HasPrefix(address, "[") {
		return "ipmi", address
	}
	if _, err := strconv.ParseUint(rest, 10, 64); err == nil {
		if _, known := driverFor(scheme); !known {
			return "ipmi", address // HOST:PORT
		}
	}
	return scheme, rest
}

// schemed returns an address of which only the scheme is set.
func schemed(scheme string) (Address, error) {
	name, transport, suffixed := strings.Cut(strings.ToLower(scheme), "+")
	d, ok := driverFor(name)
	if !ok {
		if len(scheme) > 40 {
			scheme = scheme[:40] + "..."
		}
		return Address{}, errors.NewNotSupported(nil, fmt.Sprintf("unknown scheme %s; want one of %s", strconv.QuoteToASCII(scheme), schemes()))
	}
	a := Address{Driver: d}
	if d.TLS {
		a.Transport = "https"
	}
	if suffixed {
		if !d.TLS || transport != "http" && transport != "https" {
			return Address{}, errors.NewNotSupported(nil, fmt.Sprintf("unknown transport %s of scheme %s; want +http or +https with one that takes it", strconv.QuoteToASCII(transport), name))
		}
		a.Transport = transport
	}
	return a, nil
}

// checkHost returns the host of u if it is an IP address or a DNS name.
func checkHost(u *url.URL) (string, error) {
	host := u.Hostname()
	if host == "" {
		return "", errors.New("it has no host")
	}
	if strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "[") {
		return "", errors.New("an IPv6 address needs brackets here")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	if strings.HasPrefix(u.Host, "[") {
		return "", errors.New("what is in brackets is not an IPv6 address")
	}
	if !isDNSName(host) {
		return "", errors.New("its host is neither an IP address nor a DNS name")
	}
	return strings.ToLower(host), nil
}

// isDNSName reports whether s is a host name by RFC 1123 whose last label is
// not a number, which only a mistyped IPv4 address would have. Underscores,
// seen in the field, are let through.
func isDNSName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		for _, r := range l {
			if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
				return false
			}
		}
	}
	last := labels[len(labels)-1]
	return strings.Trim(last, "0123456789") != ""
}

// checkPort reads the port of hostport; 0 if there is none.
func checkPort(hostport, port string) (int, error) {
	if port == "" {
		if strings.HasSuffix(hostport, ":") {
			return 0, errors.New("there is no port behind the colon")
		}
		return 0, nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return 0, errors.New("its port is not between 1 and 65535")
	}
	return n, nil
}

// checkPath returns the path of u without the last slash.
func checkPath(u *url.URL) (string, error) {
	p := u.EscapedPath()
	for _, segment := range strings.Split(u.Path, "/") {
		if segment == ".." || segment == "." {
			return "", errors.New("its path has . or .. in it")
		}
	}
	if strings.ContainsAny(u.Path, "\\") || strings.Contains(strings.TrimRight(p, "/"), "//") {
		return "", errors.New("its path has an empty part or a backslash")
	}
	return strings.TrimRight(p, "/"), nil
}

// setQuery takes in the query of u.
func (a *Address) setQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	if a.Driver.Family != FamilyIPMI {
		return errors.Errorf("a %s address has no ?query", a.Driver.Scheme)
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(values) != 1 || len(values["privilegelevel"]) != 1 {
		return errors.New("its query may only be privilegelevel=LEVEL")
	}
	switch level := strings.ToUpper(values.Get("privilegelevel")); level {
	case "ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK":
		a.PrivilegeLevel = level
		return nil
	}
	return errors.New("its privilegelevel is none of ADMINISTRATOR, OPERATOR, USER, CALLBACK")
}

// reason returns what url.Parse found wrong, without the URL it quotes.
func reason(err error) string {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	switch err.(type) {
	case url.EscapeError:
		return "a bad %-escape"
	case url.InvalidHostError:
		return "a character that a host name cannot have"
	}
	return "malformed host or port"
}

// portOr returns the port, or d if none was given.
func (a Address) portOr(d int) int {
	if a.Port != 0 {
		return a.Port
	}
	return d
}

// HostPort returns where to connect to, "host:port", with the scheme's default
// port if none was given.
func (a Address) HostPort() string {
	d := a.Driver.DefaultPort
	switch {
	case d != 0:
	case a.Transport == "http":
		d = 80
	default:
		d = 443
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.portOr(d)))
}

// Endpoint returns the URL of the BMC's HTTP server, without a path; the port is
// there only if it was given.
func (a Address) Endpoint() string {
	transport := a.Transport
	if transport == "" {
		transport = "https"
	}
	return transport + "://" + a.authority()
}

// authority returns the host, with brackets and port where needed.
func (a Address) authority() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
	}
	if a.Port != 0 {
		host += ":" + strconv.Itoa(a.Port)
	}
	return host
}

// String returns the address in its one canonical form, which Parse reads back
// to an equal value. Two spellings of one BMC have the same form.
func (a Address) String() string {
	scheme := a.Driver.Scheme
	if a.Driver.TLS && a.Transport == "http" {
		scheme += "+http"
	}
	s := scheme + "://" + a.authority() + a.Path
	if a.PrivilegeLevel != "" {
		s += "?privilegelevel=" + a.PrivilegeLevel
	}
	return s
}

// Key returns what two hosts may not share: the place of the BMC and the system
// in it, whatever the scheme.
func (a Address) Key() string { return a.HostPort() + a.Path }
