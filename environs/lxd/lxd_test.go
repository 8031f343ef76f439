package lxd_test

import (
	"testing"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/environs/providertest"
)

func TestConformance(t *testing.T) {
	for name, hosts := range map[string]int{"one host": 1, "three hosts": 3} {
		t.Run(name, func(t *testing.T) {
			providertest.RunConformance(t, providertest.Config{
				New: func(t *testing.T) (environs.Provider, map[string]any) {
					options := lxd.Options{Hosts: map[string]string{}, AgentBinary: agentBinary(t)}
					for _, zone := range []string{"a", "b", "c"}[:hosts] {
						options.Hosts[zone] = lxdtest.NewServer(t, "base").Address
					}
					return lxd.New(options), map[string]any{lxd.ImageKey: "base", lxd.CloudInitKey: false}
				},
				Type: lxd.Name, BadPlacement: "zone=nowhere", Unmeetable: "cores=1000",
			})
		})
	}
}
