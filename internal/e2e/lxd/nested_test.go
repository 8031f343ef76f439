//go:build e2e

package lxd_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs"
)

// settingUp is what an operator does in a machine before it holds containers, but
// for a storage pool: the image and the profiles that the model names have to be in
// the machine's LXD server.
const settingUp = `set -e
lxc project create "$0" -c features.images=false -c features.profiles=false
lxc image import /root/system.tar --alias system
lxc profile create system
lxc profile device add system usr disk source=/usr path=/usr readonly=true
lxc profile device add system eth0 nic name=eth0 nictype=bridged parent=br0`

// probing starts a container in a machine, without anything of ours.
const probing = `lxc storage create probe dir && lxc launch system probe --storage probe --profile system || lxc info --show-log probe
lxc exec probe -- true; code=$?
lxc delete --force probe; lxc storage delete probe
exit $code`

// TestContainersInsideAMachine has a machine hold containers in an LXD server of its
// own, which is inside of it, on a network with an address for each: from the network
// itself, and from the site.
func TestContainersInsideAMachine(t *testing.T) {
	t.Parallel()
	inside := newNetwork(t)
	serveAddresses(t, inside)
	server := another(t, inside)
	image := server.importSystem(t, "slbr0")
	s := newStaticSite(t, server)
	s.slipway("model-config", "lxd-image=system", "lxd-profiles=default,system", "lxd-nesting=true")
	host := s.add("--base", "debian@12")
	s.waitFor("started", host)
	s.shows(host, s.address(host))

	name, _, err := s.container(host)
	if err != nil {
		t.Fatal(err)
	}
	server.must(t, "file", "push", "--project", s.project, image, name+"/root/system.tar")
	if out, err := s.exec(host, "sh", "-c", settingUp, s.project); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := s.exec(host, "sh", "-c", probing); err != nil {
		t.Skipf("containers in containers are refused here, so that TestContainerOnAMachine is the form that is run: %v\n%s", err, out)
	}
	t.Log("containers run in an LXD server inside of their machine")

	// The site gives no addresses: that of the profile's network is seen.
	plain := s.hold(host)
	own := s.address(plain)
	if given := netip.MustParseAddr(own); given.Compare(netip.MustParseAddr("10.213.0.100")) >= 0 {
		t.Errorf("container %s has %s, want one from the DHCP server", plain, own)
	}
	s.shows(plain, own)

	// The site gives addresses: the container has the one that the status shows.
	s.slipway("add-space", "lab")
	s.slipway("add-subnet", "10.213.0.0/24", "lab", "--low", "10.213.0.200", "--high", "10.213.0.202")
	s.slipway("controller-config", "features=address-allocation")
	given := s.hold(host)
	own = s.address(given)
	if !regexp.MustCompile(`^10\.213\.0\.20[0-2]$`).MatchString(own) {
		t.Errorf("container %s has %s, want one of the subnet's range", given, own)
	}
	s.shows(given, own)
	s.until("container "+given+" answers at "+own, func() bool {
		line := append(inside, "busybox", "ping", "-c", "1", "-W", "1", own)
		return exec.Command(line[0], line[1:]...).Run() == nil
	})

	// The machine comes back, and so do its containers.
	before := s.held(host)
	server.must(t, "restart", "--force", "--project", s.project, name)
	s.until("the containers are back", func() bool { return strings.Count(s.held(host), "RUNNING") == 2 })
	s.waitFor("started", host, plain, given)
	if after := s.held(host); after != before {
		t.Errorf("containers are\n%s, and were\n%s", after, before)
	}

	s.persist("remove-machine", plain, given)
	s.waitFor("gone", plain, given)
	if left := s.held(host); left != "" {
		t.Errorf("containers are left in the machine:\n%s", left)
	}
	s.persist("remove-machine", host)
	s.waitFor("gone", host)
	if left := server.containers(t, s.project); len(left) != 0 {
		t.Errorf("containers %q are left", left)
	}
}

// hold adds a container to a machine, and waits until it has started.
func (s *site) hold(host string) (id string) {
	s.Helper()
	out := strings.Fields(s.persist("add-machine", "--base", "debian@12", "--to", "lxd:"+host))
	id = out[len(out)-1]
	s.waitFor("started", id)
	return id
}

// held returns the containers in a machine, in the order of their names, each with
// its state; nothing if the machine's LXD server does not answer.
func (s *site) held(host string) string {
	out, _ := s.exec(host, "lxc", "list", "--project", s.project, "--format", "csv", "--columns", "ns") // it may be starting
	return out
}

// address returns the address that a machine has on the bridge's network, as it
// sees that itself.
func (s *site) address(id string) (address string) {
	s.Helper()
	seen := regexp.MustCompile(`inet (10\.213\.0\.\d+)/24`)
	s.until("machine "+id+" has an address", func() bool {
		out, err := s.look(id, "ip", "-4", "address")
		if m := seen.FindStringSubmatch(out); err == nil && m != nil {
			address = m[1]
		}
		return address != ""
	})
	return address
}

// look runs a command in a machine or in a container of one.
func (s *site) look(id string, command ...string) (string, error) {
	host, _, isContainer := strings.Cut(id, "/")
	if !isContainer {
		return s.exec(id, command...)
	}
	for line := range strings.Lines(s.held(host)) {
		name, _, _ := strings.Cut(line, ",")
		if strings.HasSuffix(name, "-"+strings.ReplaceAll(id, "/", "-")) {
			return s.exec(host, append([]string{"lxc", "exec", "--project", s.project, name, "--"}, command...)...)
		}
	}
	return "", fmt.Errorf("no container of %s: %w", environs.TagMachineID, errNone)
}

// shows waits until the status shows an address of a machine.
func (s *site) shows(id, address string) {
	s.Helper()
	s.until("the status shows address "+address+" of "+id, func() bool {
		for line := range strings.Lines(s.slipway("status")) {
			if f := strings.Fields(line); len(f) > 0 && f[0] == id && strings.Contains(line, address) {
				return true
			}
		}
		return false
	})
}
