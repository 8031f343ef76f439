package hostkeeper

import (
	"context"
	"slices"
	"sync"

	"github.com/juju/errors"
)

// mostAtOnce is how many hosts one call is about at the most.
const mostAtOnce = 1000

// batcher makes one call at a time, of all that has been asked for meanwhile. Whoever
// asks first makes the call for all who wait, so that there is nobody to start or stop.
type batcher[T any] struct {
	send func(ctx context.Context, values ...T) ([]error, error)

	mu      sync.Mutex
	busy    bool // somebody makes a call, or is told to
	waiting []*wish[T]
}

// wish is something that is asked for.
type wish[T any] struct {
	value T
	done  chan error    // takes one
	lead  chan struct{} // takes one: make the call yourself
	left  bool          // nobody waits for it any more
}

// do has a value sent, and returns what became of it. A value may be sent twice.
func (b *batcher[T]) do(ctx context.Context, value T) error {
	w := &wish[T]{value: value, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	if !b.busy {
		b.busy = true
		b.next()
	}
	b.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-w.lead:
		b.call(ctx)
		return <-w.done
	case <-ctx.Done():
		b.leave(w)
		return errors.Trace(ctx.Err())
	}
}

// next has the first who waits make a call. The caller holds mu.
func (b *batcher[T]) next() {
	if len(b.waiting) == 0 {
		b.busy = false
		return
	}
	b.waiting[0].lead <- struct{}{} // which is told once: it leaves the list with the call
}

// leave withdraws a wish, unless it is on its way already.
func (b *batcher[T]) leave(w *wish[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.left = true
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	select {
	case <-w.lead:
		b.next()
	default:
	}
}

// call sends all that waits. The first is the caller's own; if ctx, which is the
// caller's too, ends the call, the others are sent by the next.
func (b *batcher[T]) call(ctx context.Context) {
	b.mu.Lock()
	n := min(len(b.waiting), mostAtOnce)
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.mu.Unlock()
	values := make([]T, n)
	for i, w := range batch {
		values[i] = w.value
	}
	results, err := b.send(ctx, values...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		others := slices.DeleteFunc(slices.Clone(batch[1:]), func(w *wish[T]) bool { return w.left })
		b.waiting = slices.Insert(b.waiting, 0, others...)
		batch = batch[:1]
	}
	for i, w := range batch {
		if err != nil {
			w.done <- err
		} else {
			w.done <- results[i]
		}
	}
	b.next()
}
