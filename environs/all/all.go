// Package all names every provider there is.
package all

import (
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/baremetal"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/simulated"
)

// Backends are what providers run on in this process. The zero value has none:
// providers then reach what their models' settings name.
type Backends struct {
	// Rack serves simulated models that name no rack of their own; nil means
	// that every one has to.
	Rack simulated.Backend
	// LXD says what this process's machine has for models of containers.
	LXD lxd.Options
}

// Registry returns a registry of every provider.
func Registry(b Backends) *environs.Registry {
	return environs.NewRegistry(map[string]environs.Provider{
		baremetal.Name: baremetal.Provider{},
		lxd.Name:       lxd.New(b.LXD),
		simulated.Name: simulated.Provider{Rack: b.Rack},
	})
}
