package state

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// The collections of hosts, which package state/host keeps.
const (
	HostsCollection      = "hosts"       // _:<name>: what people want of a host
	HostStatusCollection = "host-status" // _:<name>: what its manager found out
	HostDataCollection   = "host-data"   // _:<name>: what its machine is configured with, sealed
)

// The collections of installations, which package state/install keeps.
const (
	InstallsCollection   = "installs"    // _:<host's UID>: what its installer is to do, and how far it is
	InstallLogCollection = "install-log" // _:<host's UID>:<boot number>: what it logged
)

// SiteDocs is the way to the site's documents for packages that keep a noun of
// the site by themselves, such as state/host. Whoever cares for that noun
// holds the site's lease: behind a fence, writes pass only while it is held.
type SiteDocs struct {
	c     *Controller
	fence *Fence
}

// SiteDocs returns the way to the site's documents, behind no fence.
func (c *Controller) SiteDocs() *SiteDocs { return &SiteDocs{c: c} }

// SiteDocs returns the way to the site's documents, behind the fence that st has.
func (st *State) SiteDocs() *SiteDocs { return &SiteDocs{st.c, st.fence} }

// Key returns the key of a document of the site.
func (s *SiteDocs) Key(collection, id string) store.Key { return siteKey(collection, id) }

// Claim returns the key of the claim on a name of a kind, which is there while somebody has the name.
func (s *SiteDocs) Claim(kind, name string) store.Key { return siteKey(claimsC, kind+":"+name) }

// Get reads documents; one that is missing has revision 0.
func (s *SiteDocs) Get(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	docs, err := s.c.store.GetAll(ctx, keys)
	return docs, errors.Trace(err)
}

// Each calls fn for each document of a collection, by id.
func (s *SiteDocs) Each(ctx context.Context, collection string, fn func(id string, d store.Doc) error) error {
	return eachDoc(ctx, s.c.store, store.Query{Collection: collection, Prefix: siteScope + ":"}, func(d store.Doc) error {
		_, id := splitID(d.ID)
		return fn(id, d)
	})
}

// Run applies what build returns, again with what has changed meanwhile; see
// store.Run. Behind a fence it returns an error satisfying kind.LeaseDenied
// unless the site's lease is held.
func (s *SiteDocs) Run(ctx context.Context, build func(attempt int) ([]store.Op, error)) error {
	defer s.c.writing.begin()()
	if s.fence != nil {
		build = s.fence.guard(ctx, s.lease(), build)
	}
	return s.c.run(ctx, build)
}

func (s *SiteDocs) lease() *Lease { return &Lease{c: s.c, name: siteLease, fence: s.fence} }

// Epoch returns the epoch at which the fence's owner holds the site's lease, as of
// now. It returns an error satisfying kind.LeaseDenied if it does not hold it.
func (s *SiteDocs) Epoch(ctx context.Context) (int64, error) {
	l := s.lease()
	epoch := s.fence.epochOf(l)
	if epoch == 0 {
		return 0, denied(l)
	}
	ld, err := l.read(ctx)
	if err != nil {
		return 0, errors.Trace(err)
	}
	if ld.lease.Epoch != epoch || ld.lease.Holder == "" {
		return 0, denied(l)
	}
	return epoch, nil
}

// Now returns the time to record.
func (s *SiteDocs) Now() time.Time { return s.c.now() }

// Keys returns the keys with which secrets of hosts are sealed; nil means that
// none can be kept.
func (s *SiteDocs) Keys() *hostkey.Ring { return s.c.hostKeys.Load() }

// SetKeys replaces the keys with which secrets are sealed from now on, and opened. A Run that
// is under way may still write what the keys before have sealed: see Settle.
func (s *SiteDocs) SetKeys(keys *hostkey.Ring) { s.c.hostKeys.Store(keys) }

// Settle waits for every Run of this controller that is under way. Whatever has to be sealed is
// sealed within one: so nothing is written after Settle that was sealed with keys which SetKeys
// had replaced before it. Its error is that of ctx.
func (s *SiteDocs) Settle(ctx context.Context) error {
	for _, over := range s.c.writing.all() {
		select {
		case <-over:
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		}
	}
	return nil
}

// underWay knows what is under way. The zero value is ready for use.
type underWay struct {
	mu  sync.Mutex
	now map[chan struct{}]bool // each is closed when it is over
}

// begin notes that something begins, and returns what notes its end.
func (u *underWay) begin() (end func()) {
	over := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil {
		u.now = make(map[chan struct{}]bool)
	}
	u.now[over] = true
	return func() {
		close(over)
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.now, over)
	}
}

// all returns what is under way.
func (u *underWay) all() []chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.now))
}

// Watch returns a watcher of a collection: its first event names every document,
// later ones those that were written or removed.
func (s *SiteDocs) Watch(ctx context.Context, collection string) (watcher.StringsWatcher, error) {
	w := &idsWatcher{out: make(chan []string, 1)}
	if err := w.subscribe(s.c.hub, w, events[[]string](w.out), topic{whole: collection}); err != nil {
		return nil, errors.Trace(err)
	}
	ids := []string{}
	err := s.Each(ctx, collection, func(id string, _ store.Doc) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		w.Kill()
		return nil, errors.Trace(err)
	}
	w.begin(ids)
	return w, nil
}

// WatchDoc returns a watcher of one document; its first event comes at once.
func (s *SiteDocs) WatchDoc(collection, id string) watcher.NotifyWatcher {
	return s.c.hub.watchKey(siteKey(collection, id))
}

// idsWatcher names the documents of a collection that change. When changes were
// lost it ends with an error, and whoever needs it starts another one.
type idsWatcher struct {
	ended
	out     chan []string
	started bool
	early   []string // what changed before the first event
}

var _ watcher.StringsWatcher = (*idsWatcher)(nil)

// Changes returns the channel of events.
func (w *idsWatcher) Changes() <-chan []string { return w.out }

func (w *idsWatcher) needs() bool { return false }

func (w *idsWatcher) resync(*listing) {
	w.fail(errors.New("changes were lost: watch again"))
}

func (w *idsWatcher) deliver(events []*event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for _, e := range events {
		_, id := splitID(e.key.ID)
		ids = append(ids, id)
	}
	if !w.started {
		w.early = append(w.early, ids...)
		return
	}
	w.send(ids)
}

// begin leaves the first event.
func (w *idsWatcher) begin(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = true
	w.send(append(ids, w.early...))
	w.early = nil
}

// send adds ids to the event that waits for the reader, or makes a new one. The
// lock is held.
func (w *idsWatcher) send(ids []string) {
	if w.over {
		return
	}
	merged := []string{}
	select {
	case merged = <-w.out:
	default:
	}
	seen := make(map[string]bool, len(merged)+len(ids))
	for _, id := range merged {
		seen[id] = true
	}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			merged = append(merged, id)
		}
	}
	w.out <- merged // there is room: only this sends, under the lock
	w.told()
}
