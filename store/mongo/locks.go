package mongo

import (
	"context"
	"sort"
	"sync"

	"github.com/slipway-project/slipway/store"
)

// locks makes the batches of one process that name the same document take
// turns. The server would let one win and the others try again; waiting costs
// less. It is about speed only: between processes the server decides.
type locks struct {
	mu   sync.Mutex
	held map[store.Key]*lock
}

type lock struct {
	users int // holders and waiters
	token chan struct{}
}

// acquire waits for all keys and returns what releases them.
func (l *locks) acquire(ctx context.Context, ops []store.Op) (release func(), err error) {
	keys := make([]store.Key, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	sort.Slice(keys, func(i, j int) bool { // one order for all: no deadlock
		a, b := keys[i], keys[j]
		return a.Collection < b.Collection || a.Collection == b.Collection && a.ID < b.ID
	})
	for i, key := range keys {
		k := l.enter(key)
		select {
		case k.token <- struct{}{}:
		case <-ctx.Done():
			l.leave(key, false)
			l.releaseAll(keys[:i])
			return nil, ctx.Err()
		}
	}
	return func() { l.releaseAll(keys) }, nil
}

func (l *locks) enter(key store.Key) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[key]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	return k
}

func (l *locks) leave(key store.Key, holding bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[key]
	if holding {
		<-k.token
	}
	if k.users--; k.users == 0 {
		delete(l.held, key)
	}
}

func (l *locks) releaseAll(keys []store.Key) {
	for _, key := range keys {
		l.leave(key, true)
	}
}
