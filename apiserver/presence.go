package apiserver

import (
	"sync"
	"time"

	"github.com/slipway-project/slipway/core/tag"
)

// settleTime is how long after the server's start an agent that is not
// connected does not count as gone.
const settleTime = 30 * time.Second

// agentKey names an agent.
type agentKey struct {
	model string
	tag   tag.Tag
}

// presence knows which agents are connected to this server. It keeps nothing:
// an agent is there while its connection is.
type presence struct {
	settled time.Time // from then on, who is not there is gone

	mu    sync.Mutex
	conns map[agentKey]int
}

func newPresence(now time.Time) *presence {
	return &presence{settled: now.Add(settleTime), conns: make(map[agentKey]int)}
}

// AgentAlive implements common.Presence.
func (p *presence) AgentAlive(modelUUID string, t tag.Tag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[agentKey{modelUUID, t}] > 0 || time.Now().Before(p.settled)
}

// enter says that an agent has a connection more. What it returns is the
// resource whose end says that it has one less.
func (p *presence) enter(k agentKey) *present {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[k]++
	return &present{p: p, key: k}
}

// present is one connection of one agent.
type present struct {
	p    *presence
	key  agentKey
	once sync.Once
}

// Kill implements common.Resource.
func (a *present) Kill() {
	a.once.Do(func() {
		a.p.mu.Lock()
		defer a.p.mu.Unlock()
		if a.p.conns[a.key]--; a.p.conns[a.key] == 0 {
			delete(a.p.conns, a.key)
		}
	})
}

// Wait implements common.Resource.
func (a *present) Wait() error { return nil }
