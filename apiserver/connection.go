package apiserver

import (
	"reflect"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// connection is one client's connection.
type connection struct {
	server *Server
	rpc    *rpc.Conn
	scope  scope
	state  *state.State // of the model; of the controller model if the connection is to the site; nil if there is no such model
	remote string       // the client's address, without port

	// Guarded by the lock of connections.
	who   agentKey    // zero until the login; people are of no model
	timer *time.Timer // ends the connection if nobody logs in
}

// ended is called when the connection has closed.
func (c *connection) ended(err error) {
	stranger := c.server.conns.remove(c)
	switch {
	case err != nil && stranger:
		c.server.strangerTrouble.tell(errors.Annotatef(err, "from %s", c.remote))
	case errors.Is(err, rpc.ErrNotReading):
		logger.Warningf("dropped connection from %s: %v", c.remote, err)
	case err != nil:
		logger.Infof("connection from %s: %v", c.remote, err)
	}
}

// newRoot returns what answers a connection that is logged in. Managers may write to
// machines of others only while they hold the model's lease.
func newRoot(c *connection, who caller, resources *common.Resources) *root {
	st := c.state
	if who.manager {
		st = st.WithFence(state.NewFence(who.own()))
	}
	return &root{
		registry: c.server.registry,
		scope:    c.scope,
		state:    st,
		conn: common.Connection{
			Auth: who, Resources: resources, Presence: c.server.presence, Sessions: c.server.sessions(),
			Schema: c.server.cfg.Schema, Version: c.server.cfg.Version, MediaURL: c.server.mediaURL,
		},
		observer: c.server.cfg.Observer,
		origin:   c.origin(who.tag),
		objects:  make(map[*facade]reflect.Value),
		working:  make(chan struct{}, maxWorking),
	}
}

// connections are all connections of a server.
type connections struct {
	mu     sync.Mutex
	all    map[*connection]bool // nil once the server stops
	agents map[agentKey]map[*connection]bool
}

func newConnections() *connections {
	return &connections{all: make(map[*connection]bool), agents: make(map[agentKey]map[*connection]bool)}
}

// add notes a connection, which ends after a time if nobody logs in. It
// reports whether the server goes on.
func (cs *connections) add(c *connection, timeout time.Duration) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all == nil {
		return false
	}
	cs.all[c] = true
	c.timer = time.AfterFunc(timeout, func() {
		logger.Debugf("closing connection from %s: no login within %v", c.remote, timeout)
		c.rpc.Kill()
	})
	return true
}

// identified notes who a connection belongs to.
func (cs *connections) identified(c *connection, who agentKey) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.all[c] {
		return
	}
	c.timer.Stop()
	c.who = who
	if cs.agents[who] == nil {
		cs.agents[who] = make(map[*connection]bool, 1)
	}
	cs.agents[who][c] = true
}

// remove forgets a connection. It reports whether nobody ever logged in on it.
func (cs *connections) remove(c *connection) (stranger bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	delete(cs.all, c)
	if set := cs.agents[c.who]; set != nil {
		delete(set, c)
		if len(set) == 0 {
			delete(cs.agents, c.who)
		}
	}
	return c.who.tag == nil
}

// list returns all connections on which somebody is logged in.
func (cs *connections) list() []*rpc.Conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []*rpc.Conn
	for c := range cs.all {
		if c.who.tag != nil {
			out = append(out, c.rpc)
		}
	}
	return out
}

// kinds returns how many connections there are of each kind of caller.
func (cs *connections) kinds(controllerModel string) map[string]int {
	out := map[string]int{"anonymous": 0, "user": 0, "agent": 0, "manager": 0}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.all {
		switch who := c.who; {
		case who.tag == nil:
			out["anonymous"]++
		case who.tag.Kind() == tag.UserKind:
			out["user"]++
		case who.model == controllerModel:
			out["manager"]++
		default:
			out["agent"]++
		}
	}
	return out
}

// DropUser implements common.Sessions.
func (cs *connections) DropUser(t tag.Tag) { cs.DropAgent("", t) }

// DropAgent implements common.Sessions.
func (cs *connections) DropAgent(modelUUID string, t tag.Tag) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.agents[agentKey{modelUUID, t}] {
		c.rpc.Kill()
	}
}

// closeAll ends all connections, waits for them, and takes no more.
func (cs *connections) closeAll() {
	cs.mu.Lock()
	all := cs.all
	cs.all = nil
	conns := make([]*rpc.Conn, 0, len(all))
	for c := range all {
		conns = append(conns, c.rpc)
	}
	cs.mu.Unlock()
	for _, c := range conns {
		c.Kill()
	}
	for _, c := range conns {
		<-c.Dead()
	}
}
