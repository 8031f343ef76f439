package userdata_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs/userdata"
	"github.com/slipway-project/slipway/internal/golden"
)

func given() network.Interface {
	return network.Interface{
		Name: "eth0", MAC: "00:16:3E:01:02:03", CIDR: "10.0.0.0/24", Address: "10.0.0.7", Gateway: "10.0.0.1",
		MTU: 1450, DNSServers: []string{"10.0.0.2", "2001:db8::53"},
	}
}

func TestNetworkIsAsApproved(t *testing.T) {
	far := network.Interface{Name: "eth1", MAC: "00:16:3e:01:02:04", CIDR: "10.1.0.8/29", Address: "10.1.0.9", Gateway: "10.9.9.9"}
	bare := network.Interface{Name: "eth2", MAC: "00:16:3e:01:02:05", CIDR: "2001:db8::/64", Address: "2001:db8::9"}
	six := network.Interface{Name: "eth3", MAC: "00:16:3e:01:02:06", CIDR: "2001:db8:1::/64", Address: "2001:db8:1::9", Gateway: "2001:db8:1::1"}
	all := []network.Interface{given(), far, bare, six}
	config, err := userdata.NetworkConfig(all)
	if err != nil {
		t.Fatal(err)
	}
	files, err := userdata.NetworkFiles(all)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.Write(config)
	for _, f := range files {
		fmt.Fprintf(&out, "=== %s %v\n%s", f.Path, f.Mode, f.Content)
	}
	golden.Check(t, "network.golden", out.String())
}

// Nothing but what it is said to be gets into a file that root's programs read.
func TestNetworkIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*network.Interface){
		"no name":            func(i *network.Interface) { i.Name = "" },
		"a path as the name": func(i *network.Interface) { i.Name = "../eth0" },
		"no MAC":             func(i *network.Interface) { i.MAC = "" },
		"no subnet":          func(i *network.Interface) { i.CIDR = "" },
		"host bits":          func(i *network.Interface) { i.CIDR = "10.0.0.7/24" },
		"another subnet":     func(i *network.Interface) { i.Address = "10.0.1.7" },
		"no address":         func(i *network.Interface) { i.Address = "" },
		"gateway":            func(i *network.Interface) { i.Gateway = "router" },
		"gateway of IPv6":    func(i *network.Interface) { i.Gateway = "2001:db8::1" },
		"DNS server":         func(i *network.Interface) { i.DNSServers = []string{"10.0.0.1\n[Link]"} },
	} {
		i := given()
		spoil(&i)
		if _, err := userdata.NetworkConfig([]network.Interface{i}); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: NetworkConfig = %v, want NotValid", name, err)
		}
		if _, err := userdata.NetworkFiles([]network.Interface{i}); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: NetworkFiles = %v, want NotValid", name, err)
		}
	}
}
