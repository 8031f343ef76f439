package apiserver

import (
	"slices"
	"sync"
	"time"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/watcher"
)

// How long an agent that is not connected does not count as gone: after the
// server's start, and after its last connection has ended, so that one which
// comes back at once is not missed. A connection that has gone silent ends after
// rpc.ConnConfig.PeerTimeout, so that an agent is missed after 25 seconds at the
// latest.
const (
	settleTime = 30 * time.Second
	graceTime  = 5 * time.Second
)

// agentKey names an agent.
type agentKey struct {
	model string
	tag   tag.Tag
}

// maxLeft bounds how many agents are remembered that have gone.
const maxLeft = 100_000

// presence knows which agents are connected: an agent is there while its connection
// is, and a little longer, or while another server of the site says that it is there.
type presence struct {
	settled time.Time // from then on, who is not there is gone
	settle  *time.Timer

	mu       sync.Mutex
	agents   map[agentKey]*agentPresence
	left     map[agentKey]time.Time             // when the last connection ended of those that are not there
	watchers map[string]map[*agentsWatcher]bool // by model
	closed   bool
	shared   shared
}

// agentPresence is an agent that is there.
type agentPresence struct {
	conns int
	leave *time.Timer // makes it count as gone; nil while it has a connection
}

func newPresence(now time.Time) *presence {
	p := &presence{
		settled: now.Add(settleTime), agents: make(map[agentKey]*agentPresence), left: make(map[agentKey]time.Time),
		watchers: make(map[string]map[*agentsWatcher]bool),
	}
	p.settle = time.AfterFunc(settleTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, set := range p.watchers {
			for w := range set {
				w.add(common.AnyAgent)
			}
		}
	})
	return p
}

// close stops what waits to happen.
func (p *presence) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.settle.Stop()
	for _, a := range p.agents {
		if a.leave != nil {
			a.leave.Stop()
		}
	}
}

// AgentAlive implements common.Presence.
func (p *presence) AgentAlive(modelUUID string, t tag.Tag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := agentKey{modelUUID, t}
	if p.agents[k] != nil || p.shared.remote[k] {
		return true
	}
	_, left := p.left[k]
	return !left && time.Now().Before(p.settled)
}

// AgentLeft implements common.Presence.
func (p *presence) AgentLeft(modelUUID string, t tag.Tag) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left[agentKey{modelUUID, t}]
}

// WatchAgents implements common.Presence.
func (p *presence) WatchAgents(modelUUID string) watcher.StringsWatcher {
	w := &agentsWatcher{p: p, model: modelUUID, out: make(chan []string, 1)}
	w.out <- []string{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers[modelUUID] == nil {
		p.watchers[modelUUID] = make(map[*agentsWatcher]bool)
	}
	p.watchers[modelUUID][w] = true
	return w
}

// tell tells the watchers of a model that an agent came or went. The lock is
// held.
func (p *presence) tell(k agentKey) {
	for w := range p.watchers[k.model] {
		w.add(k.tag.Id())
	}
}

// enter says that an agent has a connection more. What it returns is the
// resource whose end says that it has one less.
func (p *presence) enter(k agentKey) *present {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[k]
	if a == nil {
		a = &agentPresence{}
		p.agents[k] = a
		p.mark(k)
		if !p.shared.remote[k] {
			delete(p.left, k)
			p.tell(k)
		}
	}
	if a.leave != nil {
		a.leave.Stop()
		a.leave = nil
	}
	a.conns++
	return &present{p: p, key: k}
}

// leave says that an agent has a connection less.
func (p *presence) leave(k agentKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.agents[k]
	if a.conns--; a.conns > 0 || p.closed {
		return
	}
	since := time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(graceTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if a.leave == timer { // it has not come back
			delete(p.agents, k)
			p.mark(k)
			if !p.shared.remote[k] {
				p.goneSince(k, since)
			}
		}
	})
	a.leave = timer
}

// goneSince notes that an agent is not there any more, and tells of it. The lock is
// held.
func (p *presence) goneSince(k agentKey, since time.Time) {
	for old := range p.left {
		if len(p.left) < maxLeft {
			break
		}
		delete(p.left, old)
	}
	p.left[k] = since
	p.tell(k)
}

// present is one connection of one agent.
type present struct {
	p    *presence
	key  agentKey
	once sync.Once
}

var _ common.Resource = (*present)(nil)

// Kill implements common.Resource.
func (a *present) Kill() { a.once.Do(func() { a.p.leave(a.key) }) }

// Wait implements common.Resource.
func (a *present) Wait() error { return nil }

// agentsWatcher names the machines of a model whose agents came or went. It has
// no goroutine: who tells it and who reads meet in a channel with room for one
// event.
type agentsWatcher struct {
	p     *presence
	model string
	out   chan []string
	over  bool // under the lock of p
}

var _ watcher.StringsWatcher = (*agentsWatcher)(nil)

// add puts a machine into the event that waits, or into a new one. The lock of
// p is held.
func (w *agentsWatcher) add(id string) {
	var ids []string
	select {
	case ids = <-w.out:
	default:
	}
	if !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	w.out <- ids // there is room
}

// Changes implements watcher.StringsWatcher.
func (w *agentsWatcher) Changes() <-chan []string { return w.out }

// Kill implements watcher.Watcher.
func (w *agentsWatcher) Kill() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	delete(w.p.watchers[w.model], w)
	if len(w.p.watchers[w.model]) == 0 {
		delete(w.p.watchers, w.model)
	}
	close(w.out)
}

// Wait implements watcher.Watcher.
func (w *agentsWatcher) Wait() error { return nil }
