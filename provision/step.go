package provision

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
)

var logger = loggo.GetLogger("slipway.provision")

// Step represents a named provisioning step.
type Step struct {
	Name string
	Fn   func(ctx context.Context) error
}

// plannedStep is a step with everything the runner must know of it.
type plannedStep struct {
	Step
	// Retries is how often the step is tried again after it failed; never when the
	// error is one that cannot pass by itself.
	Retries int
	// Timeout bounds one try.
	Timeout time.Duration
	// Rerun has the step run on a resume although it was done: it makes anew what a
	// failure took down.
	Rerun bool
	// Silent says that the step reports by itself and its end is not reported.
	Silent bool
	// Skip returns why the step is left out, or "". nil means never.
	Skip func() string
	// Dump lists commands whose output helps when the step has failed.
	Dump []string
}

// ErrFinal is in the chain of an error that another try cannot help.
const ErrFinal = errors.ConstError("a new try cannot help")

// first and longest pause between tries of a step.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// backoff returns the pause before try n, counted from 2; jitter is 0 to 1 and adds up
// to a fifth.
func backoff(n int, jitter float64) time.Duration {
	d := longestPause
	if n < 7 {
		d = min(firstPause<<max(0, n-2), longestPause)
	}
	return d + time.Duration(jitter*float64(d)/5)
}
