package worker

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait between tries. The zero value is usable.
type Backoff struct {
	Min time.Duration // after the first failure; 0 means 1 second
	Max time.Duration // the longest wait; 0 means 1 minute
}

// Delay returns how long to wait after failures in a row: Min doubled for each
// after the first, at most Max, give or take a fifth so that those who failed
// together do not come back together. No failures mean no wait.
func (b Backoff) Delay(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	shortest, longest := b.Min, b.Max
	if shortest <= 0 {
		shortest = time.Second
	}
	if longest <= 0 {
		longest = time.Minute
	}
	d := shortest
	for i := 1; i < failures && d < longest; i++ {
		d *= 2
	}
	d = min(d, longest)
	fifth := int64(d) / 5
	if fifth == 0 {
		return d
	}
	return d + time.Duration(rand.Int64N(2*fifth+1)-fifth)
}
