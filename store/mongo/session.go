package mongo

import (
	"crypto/rand"
	"sync"
	"time"

	"gopkg.in/mgo.v2/bson"
)

// serverSession is a logical session: what retryable writes and transactions
// belong to. One call at a time uses it.
type serverSession struct {
	id     bson.D
	number int64 // of the latest write or transaction
	used   time.Time
}

// sessionIdle is how long an unused session is kept: servers forget them after
// 30 minutes.
const sessionIdle = 20 * time.Minute

// sessions is a pool of logical sessions.
type sessions struct {
	mu   sync.Mutex
	free []*serverSession
}

// get returns an unused session with a fresh number.
func (p *sessions) get() *serverSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.free) > 0 {
		ss := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		if time.Since(ss.used) < sessionIdle {
			ss.number++
			return ss
		}
	}
	uuid := make([]byte, 16)
	rand.Read(uuid)
	uuid[6], uuid[8] = uuid[6]&0x0f|0x40, uuid[8]&0x3f|0x80 // version 4
	return &serverSession{id: bson.D{{Name: "id", Value: bson.Binary{Kind: 4, Data: uuid}}}, number: 1}
}

// put gives a session back.
func (p *sessions) put(ss *serverSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ss.used = time.Now()
	p.free = append(p.free, ss)
}

// drain empties the pool and returns the ids of its sessions.
func (p *sessions) drain() []bson.D {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []bson.D
	for _, ss := range p.free {
		ids = append(ids, ss.id)
	}
	p.free = nil
	return ids
}
