package state

// EntityKind says what kind of thing changed in a model.
type EntityKind string

// The kinds of things that a ChangesWatcher names.
const (
	MachineKind     EntityKind = "machine" // the id is the machine's
	ModelKind       EntityKind = "model"   // the id is the model's UUID
	ModelConfigKind EntityKind = "model-config"
)

// EntityID names a thing of a model.
type EntityID struct {
	Kind EntityKind
	ID   string
}

// ModelChanges says what changed in a model.
type ModelChanges struct {
	All      bool       // anything may have changed: read everything. True in the first event
	Entities []EntityID // each named once, in the order of their first change; removed ones too
}

// ChangesWatcher names everything that changes in a model. It is otherwise as in
// package watcher: the reader looks things up by itself, and not found
// means removed.
type ChangesWatcher struct {
	ended
	model string
	out   chan ModelChanges

	unread map[EntityID]bool // what the event in out names
}

// WatchChanges returns a watcher of everything in the model.
func (st *State) WatchChanges() *ChangesWatcher {
	w := &ChangesWatcher{model: st.modelUUID, out: make(chan ModelChanges, 1)}
	if w.subscribe(st.c.hub, w, events[ModelChanges](w.out), topic{model: st.modelUUID}) == nil {
		w.resync(nil)
	}
	return w
}

// Changes returns the channel of events, which is closed at the end.
func (w *ChangesWatcher) Changes() <-chan ModelChanges { return w.out }

func (w *ChangesWatcher) needs() bool { return false }

func (w *ChangesWatcher) deliver(events []*event) {
	w.merge(func(c *ModelChanges) {
		for _, e := range events {
			named, ok := w.entity(e)
			if ok && !c.All && !w.unread[named] {
				w.unread[named] = true
				c.Entities = append(c.Entities, named)
			}
		}
	})
}

// entity returns the thing whose document changed; false for what is no thing
// by itself.
func (w *ChangesWatcher) entity(e *event) (EntityID, bool) {
	_, id := splitID(e.key.ID)
	switch e.key.Collection {
	case machinesC:
		return EntityID{MachineKind, id}, true
	case modelsC:
		return EntityID{ModelKind, id}, true
	case configsC:
		return EntityID{ModelConfigKind, w.model}, true
	}
	return EntityID{}, false
}

func (w *ChangesWatcher) resync(*listing) {
	w.merge(func(c *ModelChanges) { *c = ModelChanges{All: true} })
}

// merge changes the event that waits for the reader, or makes a new one.
func (w *ChangesWatcher) merge(change func(*ModelChanges)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	var c ModelChanges
	select {
	case c = <-w.out:
	default:
		w.unread = map[EntityID]bool{}
	}
	if change(&c); c.All || len(c.Entities) > 0 {
		w.out <- c
		w.told()
	}
}
