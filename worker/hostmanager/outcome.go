package hostmanager

import (
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// kind is what came of a pass.
type kind int

const (
	advanced kind = iota // the state, or something in it, changed: go on at once
	waiting              // under way: look again after a while
	queued               // waits for a place
	resting              // all is as it should be: look again every minute
	parked               // nothing to do until the record changes
	failed               // the back end's verdict
	faulted              // a fault that says nothing about the host
	removed              // the host is gone
)

// outcome is what came of a pass, and all that the wait for the next one follows
// from.
type outcome struct {
	kind    kind
	next    metal3v1alpha1.ProvisioningState // with advanced; the same state: something in it
	wait    time.Duration                    // with waiting
	reason  string                           // what is waited for, or what went wrong
	failure metal3v1alpha1.ErrorType         // with failed
}

// The outcomes, as handlers write them.
func advanceTo(s metal3v1alpha1.ProvisioningState) outcome { return outcome{kind: advanced, next: s} }
func waitFor(d time.Duration, reason string) outcome {
	return outcome{kind: waiting, wait: d, reason: reason}
}
func failure(t metal3v1alpha1.ErrorType, message string) outcome {
	return outcome{kind: failed, failure: t, reason: message}
}
func fault(err error) outcome { return outcome{kind: faulted, reason: err.Error()} }

// Bounds on waiting times.
const (
	// maxExponent caps the back-off after failures at 2^9 minutes, 8 h 32 min.
	maxExponent = 9
	// powerInterval is how often the power of a host that rests is read.
	powerInterval = time.Minute
	// faultMin and faultMax bound the wait after faults.
	faultMin = time.Second
	faultMax = 5 * time.Minute
	// hasty is how many passes in a row may follow each other at once; then they
	// are hastyWait apart, lest a back end that errs keeps a processor busy.
	hasty     = 100
	hastyWait = 100 * time.Millisecond
	// notReadyWait is how long a back end that is not up is left alone.
	notReadyWait = 30 * time.Second
)

// backOff returns how long to wait after count failures in a row: more than half
// of 2^count minutes, and at most the whole. random is in [0, 1).
func backOff(count int, random float64) time.Duration {
	base := time.Minute << min(max(count, 1), maxExponent)
	return base - time.Duration(random*float64(base)/2)
}

// delay returns how long to wait for the next pass, and false if only a change of
// the record leads to one. failures and faults are counts in a row, this one
// included; quick is how many passes in a row had no wait.
func (o outcome) delay(failures, faults, quick int, random float64) (d time.Duration, again bool) {
	switch o.kind {
	case parked, removed:
		return 0, false
	case resting:
		// A tenth of jitter, so that hosts that started together drift apart.
		return powerInterval - time.Duration(random*float64(powerInterval)/10), true
	case failed:
		return backOff(failures, random), true
	case faulted:
		base := min(faultMin<<min(max(faults-1, 0), 16), faultMax)
		return base - time.Duration(random*float64(base)/2), true
	case queued:
		return placeInterval, true
	}
	if o.wait <= 0 && quick >= hasty {
		return hastyWait, true
	}
	return max(o.wait, 0), true
}
