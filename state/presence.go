package state

import (
	"context"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// AgentShards is over how many documents a server spreads the names of the
// agents that are connected to it, so that one that comes or goes rewrites few.
const AgentShards = 64

// agentsDoc is a part of the agents that are connected to one server.
type agentsDoc struct {
	Agents []string `json:"agents"` // <model uuid>:<machine id>
}

func agentsKey(server string, shard int) store.Key {
	return siteKey(agentsC, server+":"+strconv.Itoa(shard))
}

// PublishAgents says which agents are connected to a server, by shard from 0 to
// AgentShards-1; each is <model uuid>:<machine id>. Shards that are not in the
// map stay as they are. It is for a server that is one of several.
func (c *Controller) PublishAgents(ctx context.Context, server string, shards map[int][]string) error {
	err := c.run(ctx, func(int) ([]store.Op, error) {
		keys := make([]store.Key, 0, len(shards))
		agents := make([][]string, 0, len(shards))
		for shard, names := range shards {
			keys, agents = append(keys, agentsKey(server, shard)), append(agents, names)
		}
		docs, err := c.store.GetAll(ctx, keys)
		if err != nil {
			return nil, errors.Trace(err)
		}
		var ops []store.Op
		for i, d := range docs {
			switch {
			case len(agents[i]) > 0:
				op, err := writeOp(d.Key, d.Rev, agentsDoc{agents[i]}, nil)
				if err != nil {
					return nil, errors.Trace(err)
				}
				ops = append(ops, op)
			case d.Rev != 0:
				ops = append(ops, store.Remove(d.Key, d.Rev))
			}
		}
		return ops, nil
	})
	return errors.Annotate(err, "cannot publish which agents are connected")
}

// forgetAgents removes all that a server has published of agents.
func (c *Controller) forgetAgents(ctx context.Context, server string) error {
	all := make(map[int][]string, AgentShards)
	for shard := range AgentShards {
		all[shard] = nil
	}
	return c.PublishAgents(ctx, server, all)
}

// PublishedAgents returns the agents that are published as connected to one server, and
// those connected to all others, as far as these are alive.
func (c *Controller) PublishedAgents(ctx context.Context, own string) (mine, others []string, err error) {
	alive := map[string]bool{}
	err = eachDoc(ctx, c.store, store.Query{Collection: serversC}, func(d store.Doc) error {
		_, id := splitID(d.ID)
		alive[id] = true
		return nil
	})
	if err == nil {
		err = eachDoc(ctx, c.store, store.Query{Collection: agentsC}, func(d store.Doc) error {
			doc, err := decode[agentsDoc](d)
			if err != nil {
				return err
			}
			_, local := splitID(d.ID)
			server, _, _ := strings.Cut(local, ":")
			switch {
			case server == own:
				mine = append(mine, doc.Agents...)
			case alive[server]:
				others = append(others, doc.Agents...)
			}
			return nil
		})
	}
	return mine, others, errors.Annotate(err, "cannot read which agents are connected")
}

// WatchPublishedAgents returns a watcher that fires when PublishedAgents may have
// changed.
func (c *Controller) WatchPublishedAgents() watcher.NotifyWatcher {
	return c.hub.watchTopic(topic{whole: agentsC}, topic{whole: serversC})
}
