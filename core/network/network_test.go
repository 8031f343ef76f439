package network_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
)

func TestDerive(t *testing.T) {
	for _, c := range []struct {
		value string
		typ   network.AddressType
		scope network.Scope
	}{
		{"127.0.0.1", network.IPv4, network.ScopeMachineLocal},
		{"127.9.9.9", network.IPv4, network.ScopeMachineLocal},
		{"::1", network.IPv6, network.ScopeMachineLocal},
		{"10.1.2.3", network.IPv4, network.ScopeCloudLocal},
		{"172.16.0.1", network.IPv4, network.ScopeCloudLocal},
		{"172.32.0.1", network.IPv4, network.ScopePublic},
		{"192.168.1.1", network.IPv4, network.ScopeCloudLocal},
		{"fd00::1", network.IPv6, network.ScopeCloudLocal},
		{"169.254.1.1", network.IPv4, network.ScopeLinkLocal},
		{"fe80::1", network.IPv6, network.ScopeLinkLocal},
		{"fe80::1%eth0", network.IPv6, network.ScopeLinkLocal},
		{"8.8.8.8", network.IPv4, network.ScopePublic},
		{"2001:db8::1", network.IPv6, network.ScopePublic},
		{"::ffff:10.0.0.1", network.IPv6, network.ScopeCloudLocal},
		{"localhost", network.HostName, network.ScopeUnknown},
		{"node.example.com", network.HostName, network.ScopeUnknown},
		{"1.2.3", network.HostName, network.ScopeUnknown},
	} {
		want := network.Address{Value: c.value, Type: c.typ, Scope: c.scope}
		if got := network.NewAddress(c.value); got != want {
			t.Errorf("NewAddress(%q) = %+v, want %+v", c.value, got, want)
		}
	}
}

func TestHostPort(t *testing.T) {
	for _, text := range []string{"10.0.0.1:17070", "[fd00::1]:1", "a.example:65535"} {
		hp, err := network.ParseHostPort(text)
		if err != nil || hp.String() != text {
			t.Errorf("ParseHostPort(%q) = %v, %v", text, hp, err)
		}
	}
	for _, text := range []string{"", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:http", "::1:1", "a b:1", "http://a:1"} {
		if hp, err := network.ParseHostPort(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseHostPort(%q) = %v, %v, want NotValid", text, hp, err)
		}
	}
	if _, err := network.ParseHostPorts("a:1", "b"); err == nil {
		t.Error("ParseHostPorts let a bad one through")
	}
	hps, err := network.ParseHostPorts("10.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(hps)
	if want := `[{"value":"10.0.0.1","type":"ipv4","scope":"local-cloud","port":1}]`; err != nil || string(data) != want {
		t.Errorf("Marshal = %s, %v, want %s", data, err, want)
	}
}

func TestSortMergeAndPrefer(t *testing.T) {
	all := network.NewAddresses("fe80::1", "127.0.0.1", "10.0.0.2", "2001:db8::1", "10.0.0.1", "name", "8.8.8.8")
	network.Sort(all)
	want := network.NewAddresses("8.8.8.8", "2001:db8::1", "name", "10.0.0.1", "10.0.0.2", "127.0.0.1", "fe80::1")
	if !reflect.DeepEqual(all, want) {
		t.Errorf("Sort = %v, want %v", all, want)
	}

	provider, machine := network.NewAddresses("10.0.0.9", "8.8.8.8"), network.NewAddresses("127.0.0.1", "10.0.0.9", "10.0.0.1")
	merged := network.Merge(provider, machine)
	if want := network.NewAddresses("10.0.0.9", "8.8.8.8", "127.0.0.1", "10.0.0.1"); !reflect.DeepEqual(merged, want) {
		t.Errorf("Merge = %v, want %v", merged, want)
	}

	for _, c := range []struct {
		name            string
		values          []string
		public, private string
	}{
		{"both", []string{"10.0.0.9", "8.8.8.8", "10.0.0.1"}, "8.8.8.8", "10.0.0.9"},
		{"private only", []string{"127.0.0.1", "10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"public only", []string{"8.8.8.8"}, "8.8.8.8", "8.8.8.8"},
		{"name", []string{"a.example", "10.0.0.1"}, "a.example", "10.0.0.1"},
		{"IPv6 last", []string{"2001:db8::1", "10.0.0.1"}, "10.0.0.1", "10.0.0.1"},
		{"IPv6 only", []string{"fd00::1"}, "fd00::1", "fd00::1"},
		{"none", []string{"127.0.0.1", "fe80::1"}, "", ""},
	} {
		public, ok := network.PreferredPublic(network.NewAddresses(c.values...))
		if public.Value != c.public || ok != (c.public != "") {
			t.Errorf("%s: PreferredPublic = %v, %v, want %q", c.name, public, ok, c.public)
		}
		private, ok := network.PreferredPrivate(network.NewAddresses(c.values...))
		if private.Value != c.private || ok != (c.private != "") {
			t.Errorf("%s: PreferredPrivate = %v, %v, want %q", c.name, private, ok, c.private)
		}
	}
}

func FuzzParseHostPort(f *testing.F) {
	for _, s := range []string{"", "a:1", "[::1]:2", "a:b:c", "[fe80::1%x]:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hp, err := network.ParseHostPort(text)
		if err != nil {
			return
		}
		if again, err := network.ParseHostPort(hp.String()); err != nil || again != hp {
			t.Errorf("%q prints as %q, which gives %v, %v", text, hp, again, err)
		}
	})
}
