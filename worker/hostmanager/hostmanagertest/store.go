// Package hostmanagertest has what tests of the host manager, and of what stands
// above or below it, share: a store in memory.
package hostmanagertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker/hostmanager"
)

var _ hostmanager.Store = (*Store)(nil)

// Store is a hostmanager.Store in memory. Its methods may be called from any
// goroutine.
type Store struct {
	mu       sync.Mutex
	records  map[string]hostmanager.Record
	watchers []*idWatcher
	states   map[string][]metal3v1alpha1.ProvisioningState // each host's, in order
	events   map[string][]string
	saves    int
	intents  int
	until    map[string]time.Time    // each host's last intent
	failures map[string][]string     // each host's errors and faults, in order
	fail     func(what string) error // what is watch, hosts, intend, save or remove
}

// New returns an empty store.
func New() *Store {
	return &Store{records: make(map[string]hostmanager.Record), states: make(map[string][]metal3v1alpha1.ProvisioningState),
		events: make(map[string][]string), until: make(map[string]time.Time), failures: make(map[string][]string), fail: func(string) error { return nil }}
}

// FailWith has f decide which calls fail; what is "watch", "hosts", "intend", "save" or
// "remove".
func (s *Store) FailWith(f func(what string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Add adds a host with good credentials at a simulated BMC.
func (s *Store) Add(id string, change func(*metal3v1alpha1.BareMetalHost)) {
	h := new(metal3v1alpha1.BareMetalHost)
	h.Metadata.Name, h.Metadata.UID = id, id
	h.Spec.BMC.Address, h.Spec.Online = "simulated://"+id, true
	if change != nil {
		change(h)
	}
	s.mu.Lock()
	s.records[id] = hostmanager.Record{ID: id, Host: h, Credentials: bmc.Credentials{Username: "u", Password: "p"}, CredentialsVersion: "1"}
	s.mu.Unlock()
	s.announce(id)
}

// Change changes a record as its owner would.
func (s *Store) Change(id string, f func(*hostmanager.Record)) {
	s.mu.Lock()
	r := s.records[id]
	r.Host = r.Host.Copy()
	f(&r)
	s.records[id] = r
	s.mu.Unlock()
	s.announce(id)
}

// AskRemoval asks for the removal of a host.
func (s *Store) AskRemoval(id string, force bool) {
	s.Change(id, func(r *hostmanager.Record) {
		now := time.Now()
		r.Host.Metadata.DeletionTimestamp, r.Force = &now, force
	})
}

// SetImage gives a host another image; empty takes it away.
func (s *Store) SetImage(id, url string) {
	s.Change(id, func(r *hostmanager.Record) {
		r.Host.Spec.Image = &metal3v1alpha1.Image{URL: url}
	})
}

// Get returns a record; ok is false if it is gone.
func (s *Store) Get(id string) (hostmanager.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	return r, ok
}

// announce tells all watchers that hosts changed.
func (s *Store) announce(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.add(ids...)
	}
}

// WatchHosts is described by hostmanager.Store.
func (s *Store) WatchHosts(context.Context) (watcher.StringsWatcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("watch"); err != nil {
		return nil, err
	}
	w := &idWatcher{out: make(chan []string), more: make(chan struct{}, 1), ids: make(map[string]bool)}
	for id := range s.records {
		w.ids[id] = true
	}
	w.first = true
	s.watchers = append(s.watchers, w)
	w.tomb.Go(w.loop)
	return w, nil
}

// Hosts is described by hostmanager.Store.
func (s *Store) Hosts(_ context.Context, ids []string) ([]hostmanager.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("hosts"); err != nil {
		return nil, err
	}
	var out []hostmanager.Record
	for _, id := range ids {
		if r, ok := s.records[id]; ok {
			r.Host = r.Host.Copy()
			out = append(out, r)
		}
	}
	return out, nil
}

// Intend is described by hostmanager.Store.
func (s *Store) Intend(_ context.Context, id string, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents++
	if err := s.fail("intend"); err != nil {
		return err
	}
	s.until[id] = until
	return nil
}

// Intent returns until when the last intent noted for a host lasts; zero if there
// was none.
func (s *Store) Intent(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until[id]
}

// Save is described by hostmanager.Store.
func (s *Store) Save(_ context.Context, id string, u hostmanager.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("save"); err != nil {
		return err
	}
	r, ok := s.records[id]
	if !ok {
		return errors.NotFoundf("host %s", id)
	}
	m, all := u.Status.ErrorMessage, s.failures[id]
	if u.Progress.Faults > 0 {
		m = u.Progress.Reason
	}
	if m != "" && (len(all) == 0 || all[len(all)-1] != m) {
		s.failures[id] = append(all, m)
	}
	r.Host = r.Host.Copy()
	r.Host.Status, r.Progress = u.Status, u.Progress
	for _, key := range u.ClearAnnotations {
		delete(r.Host.Metadata.Annotations, key)
	}
	s.records[id] = r
	s.saves++
	for _, e := range u.Events {
		s.events[id] = append(s.events[id], e.Reason)
	}
	if all := s.states[id]; len(all) == 0 || all[len(all)-1] != u.Status.Provisioning.State {
		s.states[id] = append(all, u.Status.Provisioning.State)
	}
	return nil
}

// Remove is described by hostmanager.Store.
func (s *Store) Remove(_ context.Context, id string, events []hostmanager.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail("remove"); err != nil {
		return err
	}
	delete(s.records, id)
	for _, e := range events {
		s.events[id] = append(s.events[id], e.Reason)
	}
	return nil
}

// idWatcher is a StringsWatcher that is told what changed.
type idWatcher struct {
	tomb  tomb.Tomb
	out   chan []string
	more  chan struct{}
	mu    sync.Mutex
	ids   map[string]bool
	first bool
}

// Kill, Wait and Changes are described by watcher.StringsWatcher.
func (w *idWatcher) Kill()                    { w.tomb.Kill(nil) }
func (w *idWatcher) Wait() error              { return w.tomb.Wait() }
func (w *idWatcher) Changes() <-chan []string { return w.out }

// add notes that hosts changed.
func (w *idWatcher) add(ids ...string) {
	w.mu.Lock()
	for _, id := range ids {
		w.ids[id] = true
	}
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// loop sends what was noted, all at once.
func (w *idWatcher) loop() error {
	defer close(w.out)
	for {
		w.mu.Lock()
		var ids []string
		for id := range w.ids {
			ids = append(ids, id)
		}
		clear(w.ids)
		w.mu.Unlock()
		if len(ids) > 0 || w.first {
			w.first = false
			select {
			case w.out <- ids:
			case <-w.tomb.Dying():
				return tomb.ErrDying
			}
		}
		select {
		case <-w.more:
		case <-w.tomb.Dying():
			return tomb.ErrDying
		}
	}
}

// In reports whether a host is in a state.
func (s *Store) In(id string, want metal3v1alpha1.ProvisioningState) bool {
	r, ok := s.Get(id)
	return ok && r.Host.Status.Provisioning.State == want
}

// Events returns the reasons of a host's events, in order.
func (s *Store) Events(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.events[id]...)
}

// States returns the states that a host was in, in order.
func (s *Store) States(id string) []metal3v1alpha1.ProvisioningState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]metal3v1alpha1.ProvisioningState(nil), s.states[id]...)
}

// Failures returns the messages of a host's errors and faults, in order.
func (s *Store) Failures(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.failures[id]...)
}

// Saves returns how often anything was saved.
func (s *Store) Saves() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves
}

// Intents returns how often an intent was noted.
func (s *Store) Intents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intents
}

// Show describes a host for a failure message.
func (s *Store) Show(id string) string {
	r, ok := s.Get(id)
	if !ok {
		return id + " is gone"
	}
	st := r.Host.Status
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%s is %q, %q %q x%d, fails %d, progress %+v, was %v, events %v", id, st.Provisioning.State, st.ErrorType, st.ErrorMessage, st.ErrorCount, st.ProvisioningFailCount, r.Progress, s.states[id], s.events[id])
}
