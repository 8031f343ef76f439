package state

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// FirstServer is the id of a site's first API server. NewServerID returns those of
// others.
const FirstServer = "0"

// serverCounter is the local id of the counter of further servers.
const serverCounter = "servers"

// serverDoc says where one API server can be reached. It is written by that
// server alone, and removed by it, or by others once it is gone.
type serverDoc struct {
	Addresses []network.HostPort `json:"addresses"`
}

// beatDoc is written again and again by a server that is one of several. That it
// changes is what counts.
type beatDoc struct {
	Beats int64     `json:"beats"`
	At    time.Time `json:"at"` // for people
}

func serverKey(id string) store.Key { return siteKey(serversC, id) }
func beatKey(id string) store.Key   { return siteKey(beatsC, id) }

// NewServerID returns the id of a further API server, which no other has had.
func (c *Controller) NewServerID(ctx context.Context) (string, error) {
	var n int
	err := updateSite(ctx, c, siteKey(countersC, serverCounter), func(d *counter) error {
		d.Next = max(d.Next, 1) // the first server is 0
		n = d.Next
		d.Next++
		return nil
	})
	return strconv.Itoa(n), errors.Annotate(err, "cannot add a server")
}

// APIHostPorts returns the addresses of the API servers, one list for each
// server, by their ids.
func (c *Controller) APIHostPorts(ctx context.Context) ([][]network.HostPort, error) {
	var servers [][]network.HostPort
	err := eachDoc(ctx, c.store, store.Query{Collection: serversC}, func(d store.Doc) error {
		doc, err := decode[serverDoc](d)
		if err == nil {
			servers = append(servers, doc.Addresses)
		}
		return err
	})
	return servers, errors.Annotate(err, "cannot get API addresses")
}

// Publish says where an API server can be reached. Addresses that are there
// already write nothing, and so wake nobody.
func (c *Controller) Publish(ctx context.Context, id string, addresses []network.HostPort) error {
	err := updateSite(ctx, c, serverKey(id), func(d *serverDoc) error {
		if d.Addresses != nil && slices.Equal(d.Addresses, addresses) {
			return errNoChange
		}
		d.Addresses = append([]network.HostPort{}, addresses...)
		return nil
	})
	return errors.Annotate(err, "cannot publish API addresses")
}

// Withdraw takes a server's addresses back, unless they are the only ones: those
// stay, since clients have nowhere else to come back to.
func (c *Controller) Withdraw(ctx context.Context, id string) error {
	err := c.run(ctx, func(int) ([]store.Op, error) {
		page, err := c.store.List(ctx, store.Query{Collection: serversC, Prefix: siteScope + ":", Limit: 2})
		if err != nil || len(page.Docs) < 2 {
			return nil, err
		}
		others := slices.DeleteFunc(page.Docs, func(d store.Doc) bool { return d.Key == serverKey(id) })
		docs, err := c.store.GetAll(ctx, []store.Key{serverKey(id), beatKey(id)})
		if err != nil {
			return nil, err
		}
		ops := removeOps(docs)
		if len(ops) > 0 {
			ops = append(ops, store.Assert(others[0].Key, others[0].Rev)) // it must not go at the same time
		}
		return ops, nil
	})
	return errors.Annotate(err, "cannot withdraw API addresses")
}

// removeOps returns the operations that remove those documents that are there.
func removeOps(docs []store.Doc) []store.Op {
	var ops []store.Op
	for _, d := range docs {
		if d.Rev != 0 {
			ops = append(ops, store.Remove(d.Key, d.Rev))
		}
	}
	return ops
}

// Beat says that a server is alive, and publishes its addresses if others have
// taken it for gone meanwhile.
func (c *Controller) Beat(ctx context.Context, id string, addresses []network.HostPort) error {
	if err := c.Publish(ctx, id, addresses); err != nil {
		return errors.Trace(err)
	}
	err := updateSite(ctx, c, beatKey(id), func(d *beatDoc) error {
		d.Beats++
		d.At = c.now()
		return nil
	})
	return errors.Annotate(err, "cannot say that the server is alive")
}

// WatchAPIHostPorts returns a watcher of the addresses of the API servers.
func (c *Controller) WatchAPIHostPorts() watcher.NotifyWatcher {
	return c.hub.watchTopic(topic{whole: serversC})
}

// Roll is what one server knows of the others: when it saw each of them alive
// last, by a clock that nobody can set. It may be used by many goroutines.
type Roll struct {
	c    *Controller
	own  string
	mu   sync.Mutex
	seen map[string]sight
}

// sight is when a heartbeat was first seen.
type sight struct {
	rev store.Rev
	at  time.Time
}

// NewRoll returns the roll of the server with this id.
func (c *Controller) NewRoll(own string) *Roll {
	return &Roll{c: c, own: own, seen: map[string]sight{}}
}

// Call removes the servers that have not been alive for a time, and returns
// their ids. A server that never was alive since the roll began has that time
// from its first call.
func (r *Roll) Call(ctx context.Context, now time.Time, patience time.Duration) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone, err := r.call(ctx, now, patience)
	return gone, errors.Annotate(err, "cannot find servers that are gone")
}

func (r *Roll) call(ctx context.Context, now time.Time, patience time.Duration) (gone []string, err error) {
	servers, err := r.read(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for id := range r.seen {
		if _, ok := servers[id]; !ok {
			delete(r.seen, id)
		}
	}
	for id, docs := range servers {
		beat := docs[1].Rev // 0 for one that never was alive
		if s, ok := r.seen[id]; !ok || s.rev != beat {
			r.seen[id] = sight{beat, now}
			continue
		}
		if id == r.own || now.Sub(r.seen[id].at) < patience {
			continue
		}
		ops := removeOps(docs)
		if beat == 0 {
			ops = append(ops, store.AssertMissing(beatKey(id)))
		}
		err := r.c.store.Apply(ctx, ops)
		if errors.Is(err, store.ErrConflict) {
			continue // it is alive after all, or another server was faster
		}
		if err != nil {
			return gone, errors.Trace(err)
		}
		if err := r.c.forgetAgents(ctx, id); err != nil {
			logger.Warningf("what server %s has published is left: %v", id, err) // and counts no more
		}
		gone = append(gone, id)
	}
	return gone, nil
}

// read returns the documents of each server, the published addresses first.
func (r *Roll) read(ctx context.Context) (map[string][]store.Doc, error) {
	var keys []store.Key
	err := eachDoc(ctx, r.c.store, store.Query{Collection: serversC}, func(d store.Doc) error {
		_, id := splitID(d.ID)
		keys = append(keys, d.Key, beatKey(id))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return nil, errors.Trace(err)
	}
	docs, err := r.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Trace(err)
	}
	servers := make(map[string][]store.Doc)
	for i := 0; i < len(docs); i += 2 {
		if _, id := splitID(docs[i].ID); docs[i].Rev != 0 {
			servers[id] = docs[i : i+2]
		}
	}
	return servers, nil
}
