package state

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// ended is what every watcher needs to end. It has no goroutine: the hub's
// deliveries and the reader meet in a channel with room for one event.
type ended struct {
	hub    *hub
	self   subscriber
	topics []topic

	mu      sync.Mutex
	over    bool
	err     error
	done    chan struct{}
	stream  stream
	readers []func() // to call when there is something for a reader
}

var _ watcher.Waker = (*notifyWatcher)(nil)

// stream is a watcher's channel of events, whatever they are.
type stream interface {
	shut()
	waiting() bool // whether an event does
}

// events is a channel as a stream.
type events[T any] chan T

func (e events[T]) shut()         { close(e) }
func (e events[T]) waiting() bool { return len(e) > 0 }

// subscribe starts the watcher, or ends it at once if the hub has ended.
func (w *ended) subscribe(h *hub, self subscriber, s stream, topics ...topic) error {
	w.hub, w.self, w.stream, w.topics, w.done = h, self, s, topics, make(chan struct{})
	h.watchers.Add(1)
	if err := h.subscribe(self, topics...); err != nil {
		w.fail(err)
		return err
	}
	return nil
}

// Kill ends the watcher; its channel is closed when Kill returns.
func (w *ended) Kill() {
	w.hub.unsubscribe(w.self, w.topics...)
	w.fail(nil)
}

// Wait returns when the watcher has ended: nil after Kill, ErrClosed after the
// controller's end.
func (w *ended) Wait() error {
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *ended) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.over, w.err = true, err
	w.hub.watchers.Add(-1)
	w.stream.shut()
	close(w.done)
	w.told()
}

// WhenReady implements watcher.Waker.
func (w *ended) WhenReady(wake func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.stream.waiting() {
		wake()
		return
	}
	w.readers = append(w.readers, wake)
}

// told wakes who waits for an event. The lock is held, and there is one or the
// watcher has ended.
func (w *ended) told() {
	for i, wake := range w.readers {
		w.readers[i] = nil
		wake()
	}
	w.readers = w.readers[:0]
}

// notifyWatcher says that a topic changed.
type notifyWatcher struct {
	ended
	out chan struct{}
}

var _ watcher.NotifyWatcher = (*notifyWatcher)(nil)

// watchTopic returns a watcher of everything under one topic, with its first event.
func (h *hub) watchTopic(topics ...topic) *notifyWatcher {
	w := &notifyWatcher{out: make(chan struct{}, 1)}
	if w.subscribe(h, w, events[struct{}](w.out), topics...) == nil {
		w.notify()
	}
	return w
}

// watchKey returns a watcher of one document, which need not exist: it fires on
// any write to it and on its removal.
func (h *hub) watchKey(key store.Key) *notifyWatcher {
	return h.watchTopic(topic{collection: key.Collection, id: key.ID})
}

func (w *notifyWatcher) Changes() <-chan struct{} { return w.out }
func (w *notifyWatcher) deliver([]*event)         { w.notify() }
func (w *notifyWatcher) resync(*listing)          { w.notify() }
func (w *notifyWatcher) needs() bool              { return false }

// notify leaves an event for the reader, unless one is there already.
func (w *notifyWatcher) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave()
}

// leave is notify with the lock held.
func (w *notifyWatcher) leave() {
	if w.over {
		return
	}
	select {
	case w.out <- struct{}{}:
		w.told()
	default:
	}
}

// Part is an aspect of a machine that can be watched by itself. Parts are
// combined with |.
type Part uint8

// The parts of a machine.
const (
	LifePart       Part = 1 << iota
	StatusPart          // machine and instance status
	ConfigPart          // everything that has no part of its own: instance data, constraints, versions
	AddressesPart       // and host name
	ContainersPart      // the list of direct containers, and which types it supports

	numParts = iota
)

// machineParts holds a fingerprint of each part.
type machineParts [numParts]uint64

// partSeed makes fingerprints comparable within this process.
var partSeed = maphash.MakeSeed()

func partsOf(d *machineDoc) *machineParts {
	rest := *d
	rest.Life, rest.Status, rest.InstanceStatus = "", statusDoc{}, statusDoc{}
	rest.ProviderAddresses, rest.MachineAddresses, rest.Hostname = nil, nil, ""
	rest.Public, rest.Private = network.Address{}, network.Address{}
	rest.Containers, rest.ContainerTypes, rest.ContainersKnown = nil, nil, false
	var p machineParts
	for i, v := range [numParts]any{
		d.Life,
		[]statusDoc{d.Status, d.InstanceStatus},
		rest,
		machineDoc{ProviderAddresses: d.ProviderAddresses, MachineAddresses: d.MachineAddresses,
			Public: d.Public, Private: d.Private, Hostname: d.Hostname},
		machineDoc{Containers: d.Containers, ContainerTypes: d.ContainerTypes, ContainersKnown: d.ContainersKnown},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			continue // not reached: it was decoded from JSON
		}
		p[i] = maphash.Bytes(partSeed, data)
	}
	return &p
}

// differ reports whether any of the parts in mask differs.
func (p *machineParts) differ(q *machineParts, mask Part) bool {
	for i := range numParts {
		if mask&(1<<i) != 0 && p[i] != q[i] {
			return true
		}
	}
	return false
}

// partWatcher says that some parts of a machine changed.
type partWatcher struct {
	notifyWatcher
	mask Part

	last    *machineParts // nil as long as they are unknown, or the machine is missing
	lastRev store.Rev
	started bool
	early   []*event
}

// Watch returns a watcher of the machine itself: its life, configuration,
// addresses and containers. It says nothing of its statuses.
func (m *Machine) Watch(ctx context.Context) (watcher.NotifyWatcher, error) {
	return m.WatchParts(ctx, LifePart|ConfigPart|AddressesPart|ContainersPart)
}

// WatchParts returns a watcher of some parts of the machine. The machine's
// removal is an event too, whatever the parts. The machine may be gone
// already.
func (m *Machine) WatchParts(ctx context.Context, parts Part) (watcher.NotifyWatcher, error) {
	key := m.st.key(machinesC, m.id)
	w := &partWatcher{mask: parts}
	w.out = make(chan struct{}, 1)
	err := w.subscribe(m.st.c.hub, w, events[struct{}](w.out), topic{collection: key.Collection, id: key.ID})
	if err != nil {
		return nil, errors.Trace(err)
	}
	docs, err := m.st.c.store.GetAll(ctx, []store.Key{key})
	if err == nil {
		err = w.start(docs[0])
	}
	if err != nil {
		w.Kill()
		return nil, errors.Annotatef(err, "cannot watch machine %s", m.id)
	}
	return w, nil
}

func (w *partWatcher) needs() bool { return true }

// start takes up the machine as it was read after the subscription, and the events
// that came meanwhile.
func (w *partWatcher) start(d store.Doc) error {
	w.notify()
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.Rev != 0 {
		doc, err := decode[machineDoc](d)
		if err != nil {
			return err
		}
		w.last, w.lastRev = partsOf(doc), d.Rev
	}
	w.started = true
	for _, e := range w.early {
		w.apply(e)
	}
	w.early = nil
	return nil
}

func (w *partWatcher) deliver(events []*event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.early = append(w.early, events...)
		return
	}
	for _, e := range events {
		w.apply(e)
	}
}

// apply leaves an event if a part differs from what it was last. The lock is
// held.
func (w *partWatcher) apply(e *event) {
	if e.rev <= w.lastRev || w.over {
		return
	}
	changed := w.last == nil || e.parts == nil || e.parts.differ(w.last, w.mask)
	w.last, w.lastRev = e.parts, e.rev
	if changed {
		w.leave()
	}
}

func (w *partWatcher) resync(l *listing) {
	w.notify()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = nil // unknown: the next event counts
}
