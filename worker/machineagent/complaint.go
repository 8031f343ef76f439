package machineagent

import (
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/kind"
)

// remind is how long the same complaint is held back.
const remind = time.Hour

// complaint says why the agent cannot work: each reason once, and then now and
// again, however often it is met.
type complaint struct {
	mu   sync.Mutex
	last string
	at   time.Time
}

// say logs err unless it was the last thing said.
func (c *complaint) say(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := err.Error()
	if text == c.last && time.Since(c.at) < remind {
		return
	}
	c.last, c.at = text, time.Now()
	switch {
	case errors.Is(err, errors.NotProvisioned):
		logger.Infof("the controller has not recorded this machine yet, trying again")
	case errors.Is(err, errors.Unauthorized):
		logger.Errorf("the controller refuses this machine, trying again; nothing is cleaned up: %v", err)
	case errors.Is(err, api.ErrUntrusted):
		logger.Errorf("cannot trust the controller, trying again: %v (this machine's clock says %s)", err, c.at.UTC().Format(time.RFC3339))
	case errors.Is(err, kind.ModelNotFound):
		logger.Errorf("the machine's model is not there, trying again; nothing is cleaned up: %v", err)
	default:
		logger.Warningf("trying again: %v", err)
	}
}

// clear has the next complaint said, whatever it is.
func (c *complaint) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = ""
}
