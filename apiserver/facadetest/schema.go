package facadetest

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/config"
)

// schema knows the provider "simulated" alone.
func schema(provider string) (config.Schema, error) {
	if provider != "simulated" {
		return nil, errors.NotFoundf("provider %q", provider)
	}
	return Schema, nil
}
