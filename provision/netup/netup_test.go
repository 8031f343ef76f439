package netup_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/netup"
)

// links records what is done.
type links struct {
	mu     sync.Mutex
	ports  []netup.Port
	leases map[string]netup.Lease
	after  map[string]time.Duration // until a lease comes
	log    []string
	fail   string // an operation that fails
}

func (l *links) note(format string, args ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	l.log = append(l.log, line)
	if l.fail != "" && strings.HasPrefix(line, l.fail) {
		return errors.New("refused")
	}
	return nil
}

// done returns what was done so far.
func (l *links) done() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.log, ";")
}

func (l *links) Ports() ([]netup.Port, error)  { return l.ports, nil }
func (l *links) Up(name string, mtu int) error { return l.note("up %s %d", name, mtu) }
func (l *links) Make(v netup.Virtual) error {
	if len(v.Members) > 0 {
		return l.note("bond %s mode %d of %v", v.Name, v.Mode, v.Members)
	}
	return l.note("vlan %s id %d on %s", v.Name, v.ID, v.Parent)
}

func (l *links) Assign(name string, a netip.Prefix, gw netip.Addr) error {
	return l.note("assign %s %s by %v", name, a, gw)
}

func (l *links) DHCP(ctx context.Context, name string) (netup.Lease, error) {
	_ = l.note("dhcp %s", name)
	lease, ok := l.leases[name]
	if ok {
		select {
		case <-time.After(l.after[name]):
			return lease, nil
		case <-ctx.Done():
		}
	} else {
		<-ctx.Done()
	}
	return netup.Lease{}, ctx.Err()
}

func lease(address, gateway string, dns ...string) netup.Lease {
	l := netup.Lease{Address: netip.MustParsePrefix(address)}
	if gateway != "" {
		l.Gateway = netip.MustParseAddr(gateway)
	}
	for _, d := range dns {
		l.DNS = append(l.DNS, netip.MustParseAddr(d))
	}
	return l
}

var twoPorts = []netup.Port{{Name: "eth0", MAC: "52:54:00:00:00:01", Link: true}, {Name: "eth1", MAC: "52:54:00:00:00:02", Link: true}}

func TestSetup(t *testing.T) {
	for _, tc := range []struct {
		name   string
		net    config.Network
		leases map[string]netup.Lease
		after  map[string]time.Duration
		want   string
		resolv string
	}{
		{
			name:   "DHCP on every port with link, one default route",
			leases: map[string]netup.Lease{"eth0": lease("192.0.2.5/24", "192.0.2.1", "192.0.2.53"), "eth1": lease("198.51.100.5/24", "198.51.100.1", "192.0.2.53", "198.51.100.53")},
			after:  map[string]time.Duration{"eth0": time.Second / 2, "eth1": time.Second},
			want:   "up eth0 0;up eth1 0;dhcp eth0;dhcp eth1;assign eth0 192.0.2.5/24 by 192.0.2.1;assign eth1 198.51.100.5/24 by invalid IP",
			resolv: "nameserver 192.0.2.53\nnameserver 198.51.100.53\n",
		},
		{
			name:   "one port answers, the other is not waited for",
			leases: map[string]netup.Lease{"eth1": lease("198.51.100.5/24", "198.51.100.1")},
			after:  map[string]time.Duration{"eth1": time.Second},
			want:   "up eth0 0;up eth1 0;dhcp eth0;dhcp eth1;assign eth1 198.51.100.5/24 by 198.51.100.1",
		},
		{
			name:   "static, IPv6, by MAC address",
			net:    config.Network{Static: []config.Address{{Link: "52:54:00:00:00:02", Address: "2001:db8::5/64", Gateway: "2001:db8::1"}}, DNS: []string{"2001:db8::53"}, MTU: 9000},
			want:   "up eth0 9000;up eth1 9000;assign eth1 2001:db8::5/64 by 2001:db8::1",
			resolv: "nameserver 2001:db8::53\n",
		},
		{
			name: "VLAN on a bond, static",
			net: config.Network{
				Bonds: []config.Bond{{Name: "bond0", Members: []string{"eth0", "52:54:00:00:00:02"}}}, VLANs: []config.VLAN{{ID: 100, Parent: "bond0"}},
				Static: []config.Address{{Link: "bond0.100", Address: "192.0.2.5/24"}},
			},
			want: "up eth0 0;up eth1 0;bond bond0 mode 4 of [eth0 eth1];up bond0 0;vlan bond0.100 id 100 on bond0;up bond0.100 0;assign bond0.100 192.0.2.5/24 by invalid IP",
		},
		{
			name:   "VLAN with DHCP: the port below is not asked",
			net:    config.Network{VLANs: []config.VLAN{{ID: 7, Parent: "52:54:00:00:00:01"}}},
			leases: map[string]netup.Lease{"eth0.7": lease("192.0.2.5/24", "")},
			want:   "up eth0 0;up eth1 0;vlan eth0.7 id 7 on eth0;up eth0.7 0;dhcp eth0.7;assign eth0.7 192.0.2.5/24 by invalid IP",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &links{ports: twoPorts, leases: tc.leases, after: tc.after}
				r, err := netup.Setup(t.Context(), l, tc.net)
				if err != nil {
					t.Fatal(err)
				}
				got := l.done()
				if a := "dhcp eth1;dhcp eth0"; strings.Contains(got, a) { // asked at once
					got = strings.Replace(got, a, "dhcp eth0;dhcp eth1", 1)
				}
				if got != tc.want {
					t.Errorf("done:\n%s\nwant:\n%s", got, tc.want)
				}
				if r.ResolvConf() != tc.resolv {
					t.Errorf("resolv.conf = %q, want %q", r.ResolvConf(), tc.resolv)
				}
			})
		})
	}
}

func TestSetupFails(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ports []netup.Port
		net   config.Network
		kind  error
		text  string
	}{
		{"no port", nil, config.Network{}, errors.NotFound, "network port"},
		{"no link", []netup.Port{{Name: "eth0"}}, config.Network{}, errors.NotFound, "link on any of 1 ports"},
		{"nobody answers", twoPorts, config.Network{}, nil, "no lease on eth"},
		{"a member that is not there", twoPorts, config.Network{Bonds: []config.Bond{{Name: "bond0", Members: []string{"eth7"}}}}, errors.NotFound, `port "eth7" (there are eth0 52:54:00:00:00:01`},
		{"nonsense", twoPorts, config.Network{VLANs: []config.VLAN{{ID: 0, Parent: "eth0"}}}, errors.NotValid, "want an id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.net.Timeout = 60
				start := time.Now()
				_, err := netup.Setup(t.Context(), &links{ports: tc.ports}, tc.net)
				if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("Setup = %v, want %q", err, tc.text)
				}
				if took := time.Since(start); took > 61*time.Second {
					t.Errorf("took %v, want a minute at most", took)
				}
			})
		})
	}
}

func TestAPortThatGetsItsLinkLateIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &late{links: links{leases: map[string]netup.Lease{"eth0": lease("192.0.2.5/24", "")}}, at: time.Now().Add(5 * time.Second)}
		if _, err := netup.Setup(t.Context(), l, config.Network{}); err != nil {
			t.Error(err)
		}
	})
}

type late struct {
	links
	at time.Time
}

func (l *late) Ports() ([]netup.Port, error) {
	return []netup.Port{{Name: "eth0", Link: time.Now().After(l.at)}}, nil
}
