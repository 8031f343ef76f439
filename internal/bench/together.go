package main

import (
	"sync"
	"sync/atomic"
)

// together calls do for the numbers below n, some at a time, and returns the
// first error, after which it begins no more.
func together(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	for range min(n, atOnce) {
		all.Go(func() {
			for failure.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}
