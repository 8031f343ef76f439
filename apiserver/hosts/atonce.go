package hosts

import (
	"sync"
	"sync/atomic"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
)

// writers is how many hosts of one call are written at a time. The store puts what is
// written at a time on the disk together.
const writers = 64

// atOnce does something for each argument of a bulk call, for many at a time, and
// returns when all is done. Those with the same name follow one another in their order.
func atOnce[T any](args []T, name func(T) string, do func(i int, arg T)) {
	var order []string
	groups := make(map[string][]int, len(args))
	for i, a := range args {
		n := name(a)
		if _, ok := groups[n]; !ok {
			order = append(order, n)
		}
		groups[n] = append(groups[n], i)
	}
	var running sync.WaitGroup
	var next atomic.Int64
	for range min(writers, len(order)) {
		running.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(order) {
					return
				}
				for _, i := range groups[order[n]] {
					do(i, args[i])
				}
			}
		})
	}
	running.Wait()
}

// eachAtOnce is each for many at a time.
func eachAtOnce[T any](args []T, name func(T) string, do func(T) error) params.ErrorResults {
	results := make([]params.ErrorResult, len(args))
	atOnce(args, name, func(i int, a T) { results[i].Error = common.OwnError(do(a)) })
	return params.ErrorResults{Results: results}
}
