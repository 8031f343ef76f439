package hostmanager

import (
	"slices"
	"sync"
	"time"
)

// placeInterval is how often a host in the queue looks where it stands; when it is
// its turn, it is told at once.
const placeInterval = 5 * time.Second

// queue lets so many hosts at a time write images, first come first served.
type queue struct {
	limit int
	wake  func(id string) // called when it is a host's turn; must not block

	mu      sync.Mutex
	holders map[string]bool
	waiting []string
}

// newQueue returns an empty queue.
func newQueue(limit int, wake func(string)) *queue {
	return &queue{limit: limit, wake: wake, holders: make(map[string]bool)}
}

// enter asks for a place. ok says that the host has one; otherwise place is where
// it stands in the queue, from 1.
func (q *queue) enter(id string) (place int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holders[id] {
		return 0, true
	}
	i := slices.Index(q.waiting, id)
	if i < 0 {
		i = len(q.waiting)
		q.waiting = append(q.waiting, id)
	}
	if i >= q.limit-len(q.holders) {
		return i + 1, false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.holders[id] = true
	return 0, true
}

// leave gives a place back, or leaves the queue.
func (q *queue) leave(id string) {
	q.mu.Lock()
	delete(q.holders, id)
	if i := slices.Index(q.waiting, id); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	free := max(q.limit-len(q.holders), 0)
	next := slices.Clone(q.waiting[:min(free, len(q.waiting))])
	q.mu.Unlock()
	for _, id := range next {
		q.wake(id)
	}
}
