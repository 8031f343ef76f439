package provisioner

import (
	"time"

	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/worker"
)

// longestRest is the longest pause between two attempts at one thing.
const longestRest = 5 * time.Minute

// settings are what the model's configuration says about provisioning. They may
// change at any time.
type settings struct {
	harvest  config.HarvestMode
	parallel int            // machines started at once
	retries  int            // further attempts at a start that failed
	rest     worker.Backoff // between attempts
}

// settingsOf reads the settings from a model's configuration.
func settingsOf(c *config.Config) settings {
	delay := c.RetryDelay()
	if delay <= 0 {
		delay = time.Millisecond
	}
	return settings{
		harvest:  c.HarvestMode(),
		parallel: c.ProvisionWorkers(),
		retries:  c.RetryCount(),
		rest:     worker.Backoff{Min: delay, Max: max(longestRest, delay)},
	}
}
