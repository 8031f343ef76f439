package containers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
)

func TestResolversOfAMachine(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := file("stub", "# by systemd-resolved\nnameserver 127.0.0.53\noptions edns0\n")
	direct := file("direct", "search example.com\nnameserver 10.0.0.53\nnameserver\nnameserver fe80::1%eth0\nnameserver none\nnameserver 2001:db8::53\n")
	other := file("other", "nameserver 10.9.9.9\n")
	for name, c := range map[string]struct{ files, want []string }{
		"the first that has any":    {[]string{filepath.Join(dir, "none"), stub, direct, other}, []string{"10.0.0.53", "2001:db8::53"}},
		"itself alone":              {[]string{stub}, nil},
		"nothing that can be read ": {[]string{filepath.Join(dir, "none"), dir}, nil},
	} {
		if got := resolvers(c.files); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A container that is given an address is on its host's network with that, and asks
// the host's DNS servers; in the end the address is given back.
func TestContainerIsGivenAnAddress(t *testing.T) {
	server := lxdtest.NewServer(t, "base")
	c := newController()
	c.subnet = "10.0.0.0/24"
	cfg := configFor(t, c, server.Address)
	cfg.Resolvers = func() []string { return []string{"10.0.0.53"} }
	start(t, cfg)
	c.change("0/lxd/0", func(*record) {})
	c.until(t, "the container is recorded", func() bool { return c.records["0/lxd/0"].instance != "" })
	for _, made := range server.Containers() {
		file := made.Files["/etc/systemd/network/05-slipway-eth0.network"].Content
		if nic := made.Devices["eth0"]; nic["hwaddr"] != "00:16:3e:00:00:01" || nic["network"] != "lxdbr0" ||
			!strings.Contains(file, "Address=10.0.0.7/24\nDNS=10.0.0.53\n") {
			t.Errorf("network device %v, network file %q", nic, file)
		}
	}
	c.change("0/lxd/0", func(r *record) { r.life = life.Dead })
	c.until(t, "the container is removed", func() bool { return c.records["0/lxd/0"] == nil })
	if !slices.Equal(c.released, []string{"0/lxd/0"}) {
		t.Errorf("addresses released of %q", c.released)
	}
}
