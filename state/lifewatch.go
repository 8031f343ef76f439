package state

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// lifeWatcher says which members of a group have appeared, changed their life
// or disappeared.
//
// Its first event names all members, dead ones too. Later ones name a member when it
// appears and is not dead, when its life changes, and when it disappears
// without having been seen dead. Once a member was named as dead it is never
// named again, and one that is dead when it is first seen later on is not named at
// all.
type lifeWatcher struct {
	ended
	out    chan []string
	topic  topic
	member func(id string) bool // nil takes all of the group

	known   map[string]lifeAt // by local id; dead ones stay until they are removed
	started bool
	stale   bool     // changes were lost before the start: list again
	early   []*event // that came before the start

	unread map[string]bool // what the event in out names
}

// lifeAt is a life and the revision at which it was seen.
type lifeAt struct {
	life life.Value
	rev  store.Rev
}

var _ watcher.StringsWatcher = (*lifeWatcher)(nil)

// Watch returns a watcher of the lives of the model's top-level machines. See
// package watcher for how it ends.
func (ms *Machines) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := ms.st.watchLives(ctx, "", nil)
	return w, errors.Annotate(err, "cannot watch machines")
}

// WatchContainers returns a watcher of the lives of the machine's direct
// containers of one type, or of all types if t is empty. The type is not
// checked. The machine's removal does not end the watcher.
func (m *Machine) WatchContainers(ctx context.Context, t container.Type) (watcher.StringsWatcher, error) {
	member := func(id string) bool { return t == "" || tag.ContainerType(id) == t }
	w, err := m.st.watchLives(ctx, m.id, member)
	return w, errors.Annotatef(err, "cannot watch containers of machine %s", m.id)
}

// Watch returns a watcher of the lives of the site's models, by UUID.
func (ms *Models) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := ms.c.hub.watchLives(ctx, modelsTopic, nil, store.Query{Collection: modelsC})
	return w, errors.Annotate(err, "cannot watch models")
}

// watchLives watches the direct containers of parent, or the top-level machines.
func (st *State) watchLives(ctx context.Context, parent string, member func(string) bool) (watcher.StringsWatcher, error) {
	q := store.Query{Collection: machinesC, Prefix: st.modelUUID + ":"}
	if parent != "" {
		q.Prefix += parent + "/"
	}
	return st.c.hub.watchLives(ctx, machinesTopic(st.modelUUID, parent), member, q)
}

func (h *hub) watchLives(ctx context.Context, t topic, member func(string) bool, q store.Query) (watcher.StringsWatcher, error) {
	w := &lifeWatcher{out: make(chan []string, 1), topic: t, member: member,
		known: map[string]lifeAt{}, unread: map[string]bool{}}
	if err := w.subscribe(h, w, events[[]string](w.out), t); err != nil {
		return nil, errors.Trace(err)
	}
	for started := false; !started; {
		var found []event
		err := eachDoc(ctx, h.store, q, func(d store.Doc) error {
			if !inTopic(d.Key, t) {
				return nil
			}
			e := event{key: d.Key}
			err := e.fill(d, false)
			found = append(found, e)
			return err
		})
		if err != nil {
			w.Kill()
			return nil, errors.Trace(err)
		}
		started = w.start(found)
	}
	return w, nil
}

func inTopic(key store.Key, t topic) bool {
	for _, u := range topicsOf(key) {
		if u == t {
			return true
		}
	}
	return false
}

// start leaves the first event, and then takes up what came meanwhile. It
// returns false if the members must be listed again.
func (w *lifeWatcher) start(found []event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stale {
		w.stale, w.early = false, nil
		return false
	}
	ids := make([]string, 0, len(found))
	for _, e := range found {
		if id := w.local(&e); id != "" {
			w.known[id] = lifeAt{e.life, e.rev}
			ids = append(ids, id)
			w.unread[id] = true
		}
	}
	w.started = true
	if !w.over {
		w.out <- ids // there is room: nothing has been sent yet
		w.told()
	}
	w.applyAll(w.early)
	w.early = nil
	return true
}

// local returns the id under which the watcher names a document, or "" if it is
// no member.
func (w *lifeWatcher) local(e *event) string {
	_, id := splitID(e.key.ID)
	if w.member != nil && !w.member(id) {
		return ""
	}
	return id
}

// Changes returns the channel of events.
func (w *lifeWatcher) Changes() <-chan []string { return w.out }

func (w *lifeWatcher) needs() bool { return true }

func (w *lifeWatcher) deliver(events []*event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.early = append(w.early, events...)
		return
	}
	w.applyAll(events)
}

// applyAll names the members that events say something new of, and those in news. The
// lock is held.
func (w *lifeWatcher) applyAll(events []*event, news ...string) {
	for _, e := range events {
		if id := w.local(e); id != "" && w.apply(id, e) {
			news = append(news, id)
		}
	}
	w.name(news)
}

// apply takes up a member's life, and reports whether the member is to be
// named.
func (w *lifeWatcher) apply(id string, e *event) bool {
	was, known := w.known[id]
	switch {
	case e.rev <= was.rev: // seen already
		return false
	case e.removed:
		delete(w.known, id)
		return known && was.life != life.Dead
	case e.life == was.life:
		return false
	}
	w.known[id] = lifeAt{e.life, e.rev}
	return known || e.life != life.Dead
}

// name puts ids into the event that waits for the reader, or into a new one. The
// lock is held, so nobody else sends.
func (w *lifeWatcher) name(ids []string) {
	if w.over || len(ids) == 0 {
		return
	}
	var waiting []string
	select {
	case waiting = <-w.out:
	default:
		clear(w.unread)
	}
	for _, id := range ids {
		if !w.unread[id] {
			w.unread[id] = true
			waiting = append(waiting, id)
		}
	}
	w.out <- waiting
	w.told()
}

// resync compares what there is with what is known.
func (w *lifeWatcher) resync(l *listing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.stale = true
		return
	}
	present := map[string]bool{}
	for _, e := range l.groups[w.topic] {
		present[w.local(e)] = true
	}
	var gone []string
	for id, was := range w.known {
		if present[id] {
			continue
		}
		delete(w.known, id)
		if was.life != life.Dead {
			gone = append(gone, id)
		}
	}
	w.applyAll(l.groups[w.topic], gone...)
}
