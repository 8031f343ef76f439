package netup

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/config"
)

var logger = loggo.GetLogger("slipway.provision.netup")

// defaultTimeout is how long a working network is waited for.
const defaultTimeout = 5 * time.Minute

// Port is a network interface with hardware below it.
type Port struct {
	Name string
	MAC  string // lower case
	Link bool   // a cable with something at its other end
}

// Lease is what a DHCP server gave.
type Lease struct {
	Address netip.Prefix
	Gateway netip.Addr // invalid for none
	DNS     []netip.Addr
	Search  []string
}

// Links is what is done to network interfaces. Making something that is there
// already is no error.
type Links interface {
	// Ports lists the ports, those of bonds and VLANs not among them.
	Ports() ([]Port, error)
	// Up switches an interface on; mtu 0 leaves it as it is.
	Up(name string, mtu int) error
	// Make adds a bond with its members, or a VLAN.
	Make(v Virtual) error
	// Assign adds an address and, if gateway is valid, a default route by it.
	Assign(name string, address netip.Prefix, gateway netip.Addr) error
	// DHCP asks on an interface until it is answered or ctx ends.
	DHCP(ctx context.Context, name string) (Lease, error)
}

// Virtual is an interface on top of others: a bond if it has members, else a VLAN.
type Virtual struct {
	Name    string
	Members []string
	Mode    int // of a bond, as the kernel numbers them
	Parent  string
	ID      int // of a VLAN
}

// Setup brings the network up as n says and returns the name servers found, after at
// most n.Timeout. It succeeds when every interface of n.Static has its address or, with none, when
// one interface at least has a lease.
func Setup(ctx context.Context, l Links, n config.Network) (Result, error) {
	if err := n.Validate(); err != nil {
		return Result{}, errors.Annotate(err, "cannot set up network")
	}
	ctx, cancel := context.WithTimeout(ctx, n.Timeout.Duration(defaultTimeout))
	defer cancel()
	var last error
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		result, err := once(ctx, l, n)
		if err == nil {
			return result, nil
		}
		if ctx.Err() != nil && last != nil {
			err = last
		}
		last = err
		logger.Warningf("network: %v", err)
		select {
		case <-ctx.Done():
			return Result{}, errors.Annotate(last, "cannot set up network")
		case <-time.After(pause):
		}
	}
}

// Result is what is known once the network is up.
type Result struct {
	DNS    []netip.Addr
	Search []string
}

// ResolvConf returns the text of a resolv.conf.
func (r Result) ResolvConf() string {
	var b strings.Builder
	if len(r.Search) > 0 {
		b.WriteString("search " + strings.Join(r.Search, " ") + "\n")
	}
	for _, d := range r.DNS {
		b.WriteString("nameserver " + d.String() + "\n")
	}
	return b.String()
}

// once makes one try.
func once(ctx context.Context, l Links, n config.Network) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, errors.Trace(err)
	}
	ports, err := l.Ports()
	if err != nil {
		return Result{}, err
	}
	if len(ports) == 0 {
		return Result{}, errors.NotFoundf("network port")
	}
	for _, p := range ports {
		if err := l.Up(p.Name, n.MTU); err != nil {
			return Result{}, err
		}
	}
	tops, err := makeVirtual(l, n, ports)
	if err != nil {
		return Result{}, err
	}
	var result Result
	for _, d := range n.DNS {
		if a, err := netip.ParseAddr(d); err == nil {
			result.DNS = append(result.DNS, a)
		}
	}
	if len(n.Static) > 0 {
		return result, static(l, n.Static, ports)
	}
	if len(tops) == 0 {
		if tops, err = withLink(ctx, l); err != nil {
			return Result{}, err
		}
	}
	return ask(ctx, l, tops, result)
}

// makeVirtual makes bonds and VLANs and returns those that nothing else is on top of.
func makeVirtual(l Links, n config.Network, ports []Port) ([]string, error) {
	var tops []string
	for _, b := range n.Bonds {
		v := Virtual{Name: b.Name}
		var err error
		if v.Mode, err = b.ModeNumber(); err != nil {
			return nil, err
		}
		for _, m := range b.Members {
			name, err := find(m, ports)
			if err != nil {
				return nil, errors.Annotatef(err, "bond %s", b.Name)
			}
			v.Members = append(v.Members, name)
		}
		if err := l.Make(v); err != nil {
			return nil, err
		}
		if err := l.Up(b.Name, n.MTU); err != nil {
			return nil, err
		}
		tops = append(tops, b.Name)
	}
	for _, vlan := range n.VLANs {
		parent := vlan.Parent
		if !slices.Contains(tops, parent) {
			var err error
			if parent, err = find(parent, ports); err != nil && !isBond(n, vlan.Parent) {
				return nil, errors.Annotatef(err, "VLAN %d", vlan.ID)
			} else if err != nil {
				parent = vlan.Parent
			}
		}
		name := fmt.Sprintf("%s.%d", parent, vlan.ID)
		if err := l.Make(Virtual{Name: name, Parent: parent, ID: vlan.ID}); err != nil {
			return nil, err
		}
		if err := l.Up(name, 0); err != nil {
			return nil, err
		}
		tops = append(tops, name)
	}
	return slices.DeleteFunc(tops, func(name string) bool {
		return slices.ContainsFunc(tops, func(other string) bool { return strings.HasPrefix(other, name+".") })
	}), nil
}

func isBond(n config.Network, name string) bool {
	return slices.ContainsFunc(n.Bonds, func(b config.Bond) bool { return b.Name == name })
}

// find returns the port that has the name or MAC address.
func find(id string, ports []Port) (string, error) {
	var seen []string
	mac, err := net.ParseMAC(id)
	for _, p := range ports {
		if p.Name == id || err == nil && strings.EqualFold(p.MAC, mac.String()) {
			return p.Name, nil
		}
		seen = append(seen, p.Name+" "+p.MAC)
	}
	return "", errors.NotFoundf("port %q (there are %s)", id, strings.Join(seen, ", "))
}

// static gives addresses.
func static(l Links, all []config.Address, ports []Port) error {
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.Address)
		if err != nil {
			return errors.NotValidf("address %q", a.Address)
		}
		var gateway netip.Addr
		if a.Gateway != "" {
			if gateway, err = netip.ParseAddr(a.Gateway); err != nil {
				return errors.NotValidf("gateway %q", a.Gateway)
			}
		}
		name := a.Link
		if found, err := find(a.Link, ports); err == nil {
			name = found
		}
		if err := l.Assign(name, prefix, gateway); err != nil {
			return err
		}
	}
	return nil
}

// linkWait is how long a port may take to find its link after it was switched on.
const linkWait = 10 * time.Second

// withLink returns the ports that have a link, waiting for the first and then
// a moment for others.
func withLink(ctx context.Context, l Links) ([]string, error) {
	deadline := time.Now().Add(linkWait)
	for {
		ports, err := l.Ports()
		if err != nil {
			return nil, err
		}
		var up []string
		for _, p := range ports {
			if p.Link {
				up = append(up, p.Name)
			}
		}
		if len(up) == len(ports) || len(up) > 0 && time.Now().After(deadline.Add(-linkWait+2*time.Second)) {
			return up, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.NotFoundf("link on any of %d ports", len(ports))
		}
		select {
		case <-ctx.Done():
			return nil, errors.Trace(ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// dhcpTimeout bounds one round of asking for leases.
const dhcpTimeout = 30 * time.Second

// ask asks for a lease on all interfaces at once. The first answer counts for the
// default route; others that come within two seconds give their addresses too.
func ask(ctx context.Context, l Links, names []string, result Result) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, dhcpTimeout)
	defer cancel()
	type answer struct {
		name  string
		lease Lease
		err   error
	}
	answers := make(chan answer, len(names))
	for _, name := range names {
		go func() { // ends with ctx; the channel holds all answers
			lease, err := l.DHCP(ctx, name)
			answers <- answer{name, lease, err}
		}()
	}
	leased, first := 0, error(nil)
	for range names {
		a := <-answers
		if a.err != nil {
			if first == nil {
				first = errors.Annotatef(a.err, "no lease on %s", a.name)
			}
			continue
		}
		gateway := a.lease.Gateway
		if leased > 0 {
			gateway = netip.Addr{} // one default route
		} else {
			time.AfterFunc(2*time.Second, cancel)
		}
		if err := l.Assign(a.name, a.lease.Address, gateway); err != nil {
			return Result{}, err
		}
		logger.Infof("%s has %s by DHCP", a.name, a.lease.Address)
		leased++
		for _, d := range a.lease.DNS {
			if !slices.Contains(result.DNS, d) {
				result.DNS = append(result.DNS, d)
			}
		}
		result.Search = append(result.Search, a.lease.Search...)
	}
	if leased == 0 {
		return Result{}, first
	}
	return result, nil
}

// WriteResolvConf writes the result where programs look for it.
func (r Result) WriteResolvConf(path string) error {
	return errors.Annotate(os.WriteFile(path, []byte(r.ResolvConf()), 0o644), "cannot write resolv.conf")
}
