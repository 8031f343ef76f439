package state

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// hub follows the store's changes for all watchers of a controller. Each changed
// document that any of them needs the content of is read once; the
// watchers themselves never read. Delivery never waits for a reader.
//
// A watcher first subscribes, and then reads what is. So it may be told of a
// change that it has seen already, which it knows by the revision, but it
// misses none.
type hub struct {
	tomb  tomb.Tomb
	store store.Store
	feed  store.Feed // used by the loop alone

	watchers atomic.Int64 // that have not ended

	mu     sync.Mutex
	subs   map[topic]map[subscriber]bool
	closed bool
}

// topic is something to subscribe to. Exactly one of the groups of fields is set.
type topic struct {
	collection, id string // one document
	members        string // a collection of which the documents of one group are followed
	group          string // machines: <model uuid>:<parent id>; models: empty
	whole          string // a collection: any change
	model          string // a model's UUID: any change in it
}

// event says that a document changed. Life and parts are there only if the
// document was read, which a removed one is not.
type event struct {
	key     store.Key
	rev     store.Rev
	removed bool
	read    bool
	life    life.Value
	parts   *machineParts // nil unless someone follows the parts of this machine
	retry   time.Time     // when somebody asked for another try of this machine
}

// subscriber is a watcher as the hub sees it. The hub's lock is held in
// deliver and resync, so they must not wait nor call the hub.
type subscriber interface {
	deliver([]*event) // in their order; all that one batch of changes has for it
	// resync says that changes were lost; listed is what there is now.
	resync(*listing)
	// fail ends the watcher.
	fail(error)
	// needs says whether events without the document's content are of no use.
	needs() bool
}

// listing is every document whose life is followed, as of after the
// loss of some changes.
type listing struct {
	groups map[topic][]*event
}

func newHub(ctx context.Context, s store.Store) (*hub, error) {
	feed, err := s.Changes(ctx, "")
	if err != nil {
		return nil, errors.Trace(err)
	}
	h := &hub{store: s, feed: feed, subs: map[topic]map[subscriber]bool{}}
	h.tomb.Go(h.loop)
	return h, nil
}

// close ends all watchers and waits for the loop.
func (h *hub) close() error {
	h.tomb.Kill(nil)
	err := h.tomb.Wait()
	if errors.Is(err, store.ErrClosed) {
		return nil // the store went first; that is the owner's choice
	}
	return err
}

// subscribe adds sub to the topics; it fails when the hub has ended.
func (h *hub) subscribe(sub subscriber, topics ...topic) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	for _, t := range topics {
		if h.subs[t] == nil {
			h.subs[t] = map[subscriber]bool{}
		}
		h.subs[t][sub] = true
	}
	return nil
}

func (h *hub) unsubscribe(sub subscriber, topics ...topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		delete(h.subs[t], sub)
		if len(h.subs[t]) == 0 {
			delete(h.subs, t)
		}
	}
}

// loop follows the feed until the hub is killed or the store closed.
func (h *hub) loop() error {
	ctx := h.tomb.Context(nil)
	defer func() { h.feed.Close(); h.failAll() }()
	for {
		changes, err := h.feed.Next(ctx)
		if err == nil {
			err = h.process(ctx, changes)
		}
		if err != nil && h.tomb.Alive() && !errors.Is(err, store.ErrClosed) {
			logger.Warningf("following changes anew: %v", err)
			err = h.restart(ctx)
		}
		switch {
		case !h.tomb.Alive():
			return tomb.ErrDying
		case err != nil:
			return errors.Annotate(err, "cannot follow changes")
		}
	}
}

// failAll ends every watcher.
func (h *hub) failAll() {
	h.mu.Lock()
	subs := h.subs
	h.subs, h.closed = nil, true
	h.mu.Unlock()
	for _, set := range subs {
		for sub := range set {
			sub.fail(ErrClosed)
		}
	}
}

// process delivers a batch of changes.
func (h *hub) process(ctx context.Context, changes []store.Change) error {
	events := make([]*event, 0, len(changes))
	at := make(map[store.Key]*event, len(changes))
	for _, c := range changes {
		e := at[c.Key]
		if e == nil {
			e = &event{key: c.Key}
			at[c.Key], events = e, append(events, e)
		}
		e.rev, e.removed = c.Rev, c.Removed
	}
	if err := h.readAll(ctx, events); err != nil {
		return errors.Trace(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	due := map[subscriber][]*event{}
	for _, e := range events {
		for _, t := range topicsOf(e.key) {
			for sub := range h.subs[t] {
				if e.read || e.removed || !sub.needs() {
					due[sub] = append(due[sub], e)
				}
			}
		}
	}
	for sub, events := range due {
		sub.deliver(events)
	}
	return nil
}

// topicsOf returns the topics that a document belongs to.
func topicsOf(key store.Key) []topic {
	scope, id := splitID(key.ID)
	topics := []topic{{collection: key.Collection, id: key.ID}, {whole: key.Collection}}
	if scope != siteScope {
		topics = append(topics, topic{model: scope})
	}
	switch key.Collection {
	case machinesC:
		topics = append(topics, machinesTopic(scope, tag.Parent(id)))
	case modelsC:
		topics = append(topics, modelsTopic, topic{model: id})
	}
	return topics
}

// machinesTopic is the lives of a machine's direct containers, or of a model's top-level
// machines.
func machinesTopic(modelUUID, parent string) topic {
	return topic{members: machinesC, group: modelUUID + ":" + parent}
}

// modelsTopic is the lives of the models.
var modelsTopic = topic{members: modelsC}

// readAll reads the documents that a subscriber needs, all at once. Who
// subscribes later reads by itself, after these changes.
func (h *hub) readAll(ctx context.Context, events []*event) error {
	var wanted []*event
	var keys []store.Key
	parts := map[*event]bool{}
	h.mu.Lock()
	for _, e := range events {
		if e.removed {
			continue
		}
		need := false
		for _, t := range topicsOf(e.key) {
			for sub := range h.subs[t] {
				if !sub.needs() {
					continue
				}
				need = true
				if t.collection != "" {
					parts[e] = true
				}
				break
			}
		}
		if need {
			wanted, keys = append(wanted, e), append(keys, e.key)
		}
	}
	h.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	docs, err := h.store.GetAll(ctx, keys)
	if err != nil {
		return errors.Trace(err)
	}
	for i, d := range docs {
		if err := wanted[i].fill(d, parts[wanted[i]]); err != nil {
			logger.Errorf("%v", err) // the others are told all the same
		}
	}
	return nil
}

// fill takes up a document's content.
func (e *event) fill(d store.Doc, parts bool) error {
	if d.Rev == 0 { // removed since; the removal comes as a change of its own
		e.removed = true
		e.rev++
		return nil
	}
	e.rev = d.Rev
	if parts {
		doc, err := decode[machineDoc](d)
		if err != nil {
			return err
		}
		e.read, e.life, e.parts, e.retry = true, doc.Life, partsOf(doc), doc.Status.Retry
		return nil
	}
	var doc struct {
		Life   life.Value `json:"life"`
		Status struct {
			Retry time.Time `json:"retry"`
		} `json:"status"`
	}
	if err := json.Unmarshal(d.Data, &doc); err != nil {
		return errors.Annotatef(err, "cannot decode document %s %q", d.Collection, d.ID)
	}
	e.read, e.life, e.retry = true, doc.Life, doc.Status.Retry
	return nil
}

// restartPause is how long restart waits between its tries, at first.
const restartPause = 50 * time.Millisecond

// restart follows the changes from now on, lists afresh, and tells all
// watchers that anything may have changed. It tries until it succeeds, the
// hub is killed or the store closed.
func (h *hub) restart(ctx context.Context) error {
	for pause := restartPause; ; pause = min(2*pause, 5*time.Second) {
		err := h.tryRestart(ctx)
		if err == nil || errors.Is(err, store.ErrClosed) || ctx.Err() != nil {
			return err
		}
		logger.Warningf("cannot follow changes, trying again in %v: %v", pause, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		}
	}
}

func (h *hub) tryRestart(ctx context.Context) error {
	h.feed.Close()
	feed, err := h.store.Changes(ctx, "")
	if err != nil {
		return errors.Trace(err)
	}
	h.feed = feed
	h.mu.Lock()
	before := map[subscriber]bool{} // who may have missed something
	for _, set := range h.subs {
		for sub := range set {
			before[sub] = true
		}
	}
	h.mu.Unlock()
	l, err := h.list(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range before {
		sub.resync(l)
	}
	return nil
}

// list reads the lives of everything whose life is followed.
func (h *hub) list(ctx context.Context) (*listing, error) {
	l := &listing{groups: map[topic][]*event{}}
	for _, collection := range []string{machinesC, modelsC} {
		err := eachDoc(ctx, h.store, store.Query{Collection: collection}, func(d store.Doc) error {
			e := &event{key: d.Key}
			if err := e.fill(d, false); err != nil {
				logger.Errorf("%v", err)
				return nil
			}
			for _, t := range topicsOf(d.Key) {
				if t.members != "" {
					l.groups[t] = append(l.groups[t], e)
				}
			}
			return nil
		})
		if err != nil {
			return nil, errors.Trace(err)
		}
	}
	return l, nil
}
