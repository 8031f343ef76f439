package main

import (
	"net"

	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/internal/command"
)

// bridge returns the addresses to serve on besides, and the settings of the first
// models, for containers that reach the controller at a network interface of this
// machine. No name means that there is none.
func bridge(name string) ([]string, map[string]any, error) {
	if name == "" {
		return nil, nil, nil
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, nil, command.Usagef("--lxd-bridge: there is no network interface %q; LXD's are listed by: lxc network list", name)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil, nil, command.Usagef("--lxd-bridge: the addresses of %s cannot be read: %v", name, err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return []string{n.IP.String()}, map[string]any{lxd.BridgeKey: true}, nil
		}
	}
	return nil, nil, command.Usagef("--lxd-bridge: interface %s has no address that a container can reach; give it one: lxc network set %s ipv4.address auto", name, name)
}
