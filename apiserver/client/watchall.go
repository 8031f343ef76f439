package client

import (
	"context"
	"slices"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/watcher"
)

// WatchAll follows everything in the model.
func (c *Client) WatchAll() (params.AllWatcherID, error) {
	if err := c.conn.Resources.Room(); err != nil {
		return params.AllWatcherID{}, err
	}
	return params.AllWatcherID{WatcherID: c.conn.Resources.Register(c.follow())}, nil
}

func (c *Client) follow() *deltaWatcher {
	agents := c.conn.Presence.WatchAgents(c.backend.ModelUUID())
	return &deltaWatcher{client: c, changes: c.backend.Watch(), agents: agents, known: make(map[string]bool)}
}

// Follow returns what tells everything in a model, as WatchAll does, for whoever
// has made sure that the caller may see it.
func Follow(st *state.State, c common.Connection) common.Deltas {
	return (&Client{backend: newBackend(st), conn: c}).follow()
}

// deltaWatcher tells whole entities. It keeps no more of them than their ids.
type deltaWatcher struct {
	client  *Client
	changes ChangesWatcher
	agents  watcher.StringsWatcher // who came and went, which shows in the status

	mu    sync.Mutex      // held by the Next that is at work
	known map[string]bool // ids of the machines that were told and not removed since
}

// Kill implements common.Resource.
func (w *deltaWatcher) Kill() {
	w.agents.Kill()
	w.changes.Kill()
}

// Wait implements common.Resource.
func (w *deltaWatcher) Wait() error { return w.changes.Wait() }

// Next returns everything there is the first time, and then what has changed,
// once something has.
func (w *deltaWatcher) Next(ctx context.Context) ([]params.Delta, error) {
	for {
		c, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		deltas, err := w.deltas(ctx, c)
		if err != nil || len(deltas) > 0 {
			return deltas, err
		}
	}
}

// next waits for a change of the model, or of who is connected.
func (w *deltaWatcher) next(ctx context.Context) (Changes, error) {
	select {
	case <-ctx.Done():
		return Changes{}, common.ErrStopped
	case ids, ok := <-w.agents.Changes():
		if !ok {
			return Changes{}, common.ErrStopped
		}
		if slices.Contains(ids, common.AnyAgent) {
			return Changes{All: true}, nil
		}
		return Changes{Machines: ids}, nil
	case c, ok := <-w.changes.Changes():
		if ok {
			return c, nil
		}
		if err := w.changes.Wait(); err != nil {
			return Changes{}, err
		}
		return Changes{}, common.ErrStopped
	}
}

func (w *deltaWatcher) deltas(ctx context.Context, c Changes) ([]params.Delta, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	deltas := []params.Delta{}
	if c.All || c.Model {
		model, err := w.model(ctx)
		if err != nil {
			return nil, errors.Trace(err)
		}
		deltas = append(deltas, model)
	}
	if c.All {
		machines, err := w.client.backend.All(ctx)
		if err != nil {
			return nil, errors.Trace(err)
		}
		return w.everything(deltas, machines), nil
	}
	machines, err := w.client.backend.Get(ctx, c.Machines)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for i, m := range machines {
		if m != nil {
			deltas = append(deltas, w.machine(m))
		} else if id := c.Machines[i]; w.known[id] {
			deltas = append(deltas, w.removed(id))
		}
	}
	return deltas, nil
}

// everything adds all machines, and the removal of those that are gone.
func (w *deltaWatcher) everything(deltas []params.Delta, machines []Machine) []params.Delta {
	present := make(map[string]bool, len(machines))
	for _, m := range machines {
		present[m.Id()] = true
		deltas = append(deltas, w.machine(m))
	}
	for _, id := range sortedKeys(w.known) {
		if !present[id] {
			deltas = append(deltas, w.removed(id))
		}
	}
	return deltas
}

// removed is the end of a machine.
func (w *deltaWatcher) removed(id string) params.Delta {
	delete(w.known, id)
	return params.Delta{Removed: true, Entity: &params.MachineUpdate{ModelUUID: w.client.backend.ModelUUID(), ID: id}}
}

// model is what there is to know of the model.
func (w *deltaWatcher) model(ctx context.Context) (params.Delta, error) {
	b := w.client.backend
	info, err := b.Info(ctx)
	if errors.Is(err, errors.NotFound) {
		return params.Delta{Removed: true, Entity: &params.ModelUpdate{ModelUUID: b.ModelUUID()}}, nil
	}
	if err != nil {
		return params.Delta{}, errors.Trace(err)
	}
	s := modelStatus(info.Life)
	return params.Delta{Entity: &params.ModelUpdate{
		ModelUUID: b.ModelUUID(), Name: info.Name, Life: string(info.Life), Owner: info.Owner,
		ControllerUUID: b.ControllerUUID(), IsController: info.IsController,
		Status: params.StatusUpdate{Current: s.Status},
	}}, nil
}

// machine is what there is to know of a machine.
func (w *deltaWatcher) machine(m Machine) params.Delta {
	w.known[m.Id()] = true
	c := w.client
	agent := update(c.agentStatus(m))
	agent.Version = m.AgentVersion()
	u := &params.MachineUpdate{
		ModelUUID:           c.backend.ModelUUID(),
		ID:                  m.Id(),
		AgentStatus:         agent,
		InstanceStatus:      update(m.InstanceStatus()),
		Life:                string(m.Life()),
		Series:              m.Series(),
		Base:                m.Base().String(),
		ContainerType:       string(m.ContainerType()),
		SupportedContainers: []string{},
		Jobs:                []string{},
		Addresses:           m.Addresses(),
		Hostname:            m.Hostname(),
	}
	if u.Addresses == nil {
		u.Addresses = []network.Address{}
	}
	if id, err := m.InstanceId(); err == nil {
		u.InstanceID = string(id)
	}
	if h, err := m.Hardware(); err == nil {
		u.Hardware = &h
	}
	types, known := m.SupportedContainers()
	u.SupportedContainersKnown = known
	for _, t := range types {
		u.SupportedContainers = append(u.SupportedContainers, string(t))
	}
	for _, j := range m.Jobs() {
		u.Jobs = append(u.Jobs, string(j))
	}
	return params.Delta{Entity: u}
}

// update returns a status as a delta holds it: with its data, which clients of
// this stream use.
func update(s status.Info) params.StatusUpdate {
	return params.StatusUpdate{Current: string(s.Status), Message: s.Message, Since: common.Since(s.Since), Data: s.Data}
}
