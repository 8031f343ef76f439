package apiserver

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
)

const (
	// shareEvery is the shortest time between two looks at what other servers
	// have published, and between two publications.
	shareEvery = time.Second
	// shareTimeout bounds one of them.
	shareTimeout = 10 * time.Second
	// unshareTimeout bounds the last thing that a server writes.
	unshareTimeout = 3 * time.Second
)

// shared is what a presence knows beside its own agents, and what it has to tell, if
// its server is one of several. It is guarded by the presence's lock.
type shared struct {
	on     bool
	dirty  map[int]bool // shards that are to be published
	wake   chan struct{}
	remote map[agentKey]bool // agents that are connected to other servers
}

// shardOf returns where an agent is published.
func shardOf(k agentKey) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.name())) // cannot fail
	return int(h.Sum32() % state.AgentShards)
}

// name is how an agent is published.
func (k agentKey) name() string { return k.model + ":" + k.tag.Id() }

// agentNamed is the opposite of name.
func agentNamed(name string) (agentKey, bool) {
	model, id, ok := strings.Cut(name, ":")
	if !ok || !tag.IsValidMachine(id) {
		return agentKey{}, false
	}
	return agentKey{model, tag.NewMachineTag(id)}, true
}

// mark has an agent's shard published. The lock is held.
func (p *presence) mark(k agentKey) {
	if !p.shared.on {
		return
	}
	p.shared.dirty[shardOf(k)] = true
	select {
	case p.shared.wake <- struct{}{}:
	default:
	}
}

// share turns sharing on: every shard is to be published.
func (p *presence) share() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared = shared{on: true, dirty: map[int]bool{}, wake: make(chan struct{}, 1), remote: map[agentKey]bool{}}
	for shard := range state.AgentShards {
		p.shared.dirty[shard] = true
	}
	p.shared.wake <- struct{}{}
}

// takeDirty returns the content of the shards that are to be published.
func (p *presence) takeDirty() map[int][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	shards := make(map[int][]string, len(p.shared.dirty))
	for shard := range p.shared.dirty {
		shards[shard] = nil
	}
	for k := range p.agents {
		if shard := shardOf(k); p.shared.dirty[shard] {
			shards[shard] = append(shards[shard], k.name())
		}
	}
	for _, names := range shards {
		slices.Sort(names)
	}
	clear(p.shared.dirty)
	return shards
}

// putBack marks shards again that could not be published.
func (p *presence) putBack(shards map[int][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard := range shards {
		p.shared.dirty[shard] = true
	}
}

// compare has published again what is not published as it is: others remove it
// when they take this server for dead.
func (p *presence) compare(mine []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	published := make(map[agentKey]bool, len(mine))
	for _, name := range mine {
		if k, ok := agentNamed(name); ok {
			published[k] = true
			if p.agents[k] == nil {
				p.mark(k)
			}
		}
	}
	for k := range p.agents {
		if !published[k] {
			p.mark(k)
		}
	}
}

// setRemote takes up who is connected to other servers.
func (p *presence) setRemote(names []string) {
	next := make(map[agentKey]bool, len(names))
	for _, name := range names {
		if k, ok := agentNamed(name); ok {
			next[k] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.shared.remote
	p.shared.remote = next
	for k := range before {
		if !next[k] && p.agents[k] == nil {
			p.goneSince(k, time.Now())
		}
	}
	for k := range next {
		if !before[k] && p.agents[k] == nil {
			delete(p.left, k)
			p.tell(k)
		}
	}
}

// sharePresence publishes who is connected to this server, and follows who is to
// others, until the server stops.
func (s *Server) sharePresence() error {
	p, c, id := s.presence, s.cfg.Controller, s.cfg.ServerID
	p.share()
	w := c.WatchPublishedAgents()
	defer w.Kill()
	changes := w.Changes()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), unshareTimeout)
		defer cancel()
		all := make(map[int][]string, state.AgentShards)
		for shard := range state.AgentShards {
			all[shard] = nil
		}
		if err := c.PublishAgents(ctx, id, all); err != nil {
			logger.Debugf("%v", err) // others forget this server's agents with its addresses
		}
	}()
	look := true
	var again <-chan time.Time
	for {
		select {
		case <-s.tomb.Dying():
			return nil
		case <-p.shared.wake:
		case <-again:
		case _, ok := <-changes:
			if look = true; !ok { // the state has been closed, and the server is to follow
				changes = nil
			}
		}
		again = nil
		if err := s.exchangePresence(look); err == nil {
			look = false
		} else if s.tomb.Alive() {
			logger.Warningf("trying again in %v: %v", shareEvery, err)
			again = time.After(shareEvery)
		}
		select {
		case <-s.tomb.Dying():
			return nil
		case <-time.After(shareEvery): // so that many who come at once are published together
		}
	}
}

// exchangePresence publishes what has changed here, and looks at what the others
// have published.
func (s *Server) exchangePresence(look bool) error {
	ctx, cancel := context.WithTimeout(s.tomb.Context(nil), shareTimeout)
	defer cancel()
	p, c, id := s.presence, s.cfg.Controller, s.cfg.ServerID
	if shards := p.takeDirty(); len(shards) > 0 {
		if err := c.PublishAgents(ctx, id, shards); err != nil {
			p.putBack(shards)
			return errors.Trace(err)
		}
	}
	if !look {
		return nil
	}
	mine, others, err := c.PublishedAgents(ctx, id)
	if err != nil {
		return errors.Trace(err)
	}
	p.compare(mine)
	p.setRemote(others)
	return nil
}
