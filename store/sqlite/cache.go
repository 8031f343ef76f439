package sqlite

import (
	"bytes"
	"sync"

	"github.com/slipway-project/slipway/store"
)

// entryBytes is what a cached document costs besides its id and content: its
// key, its place in the map and its entry.
const entryBytes = 160

// cache keeps committed documents, so that most reads by id need no SQLite. It
// never answers with what a read of the file could not answer at that moment:
//
//   - Before the writer commits, it takes every document that the commit writes
//     out of the cache and bars its key (begin). As long as a key is barred, reads
//     of it go to the file, which shows the old document until the very moment of
//     the commit and the new one from then on. After the commit all of its
//     documents become visible here at once (end), and only then does Apply return.
//   - A reader that misses puts a reservation into the cache before it looks into
//     the file. Begin takes reservations away as it takes documents. What was
//     read is kept only if the reservation is still there, which means that no
//     commit of the key has begun since before the read.
//
// So an entry that is in the cache is the document's newest committed content,
// and has been since the entry was put there.
type cache struct {
	limit int // bytes; 0 means that nothing is kept

	mu      sync.RWMutex
	entries map[store.Key]*entry
	barred  map[store.Key]bool // those of the commit under way; there is at most one
	bytes   int
}

// entry is a document, or a reservation if its revision is 0. A document's entry does
// not change any more.
type entry struct {
	rev  store.Rev
	data []byte
}

func newCache(limit int) *cache {
	return &cache{limit: limit, entries: make(map[store.Key]*entry), barred: make(map[store.Key]bool)}
}

// size returns what an entry counts.
func (e *entry) size(key store.Key) int { return len(e.data) + len(key.ID) + entryBytes }

// get returns the document of a key. If it is not here, the document's
// revision is 0, and the entry is a reservation for it, or nil.
func (c *cache) get(key store.Key) (store.Doc, *entry) {
	c.mu.RLock()
	e := c.entries[key]
	c.mu.RUnlock()
	if e != nil && e.rev != 0 {
		return store.Doc{Key: key, Rev: e.rev, Data: e.data}, e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return store.Doc{Key: key}, c.reserve(key)
}

// reserve makes a reservation; the lock is held. There is none for a key that
// a commit is about to change, or that has an entry: who made it fills it.
func (c *cache) reserve(key store.Key) *entry {
	if c.limit == 0 || c.barred[key] || c.entries[key] != nil {
		return nil
	}
	e := &entry{}
	c.put(key, e)
	return e
}

// getAll looks up many keys as of one moment. It sets the documents that are
// here, and returns the places of the others, with their reservations as get
// returns them. The found entries are for stillAll; they are kept only if
// there are others.
func (c *cache) getAll(keys []store.Key, docs []store.Doc) (missing []int, entries []*entry) {
	c.mu.RLock()
	for i, key := range keys {
		docs[i] = store.Doc{Key: key}
		if e := c.entries[key]; e != nil && e.rev != 0 {
			docs[i].Rev, docs[i].Data = e.rev, e.data
			continue
		}
		missing = append(missing, i)
	}
	c.mu.RUnlock()
	if missing == nil {
		return nil, nil
	}
	missing, entries = missing[:0], make([]*entry, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys { // again: all as of this moment
		docs[i] = store.Doc{Key: key}
		if e := c.entries[key]; e != nil && e.rev != 0 {
			docs[i].Rev, docs[i].Data, entries[i] = e.rev, e.data, e
			continue
		}
		missing, entries[i] = append(missing, i), c.reserve(key)
	}
	return missing, entries
}

// stillAll reports whether the documents that getAll found have not begun to change
// since: then they are what any snapshot in between shows. Places in missing
// do not count.
func (c *cache) stillAll(keys []store.Key, entries []*entry, missing []int) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i, key := range keys {
		if len(missing) > 0 && missing[0] == i {
			missing = missing[1:]
			continue
		}
		if c.entries[key] != entries[i] {
			return false
		}
	}
	return true
}

// fill puts what was read in place of a reservation, if that still holds. For a
// document that is missing, or could not be read, it just ends the reservation.
func (c *cache) fill(reservation *entry, d store.Doc) {
	if reservation == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[d.Key] != reservation {
		return
	}
	c.drop(d.Key)
	if d.Rev != 0 {
		c.put(d.Key, &entry{rev: d.Rev, data: d.Data})
	}
}

// written is a document as a commit leaves it; a removed one has revision 0.
type written struct {
	key  store.Key
	rev  store.Rev
	data []byte // of the caller, who may change it later
}

// begin takes the documents out that a commit is about to change.
func (c *cache) begin(docs []written) {
	if c.limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range docs {
		c.drop(d.key)
		c.barred[d.key] = true
	}
}

// end follows begin. It puts the documents in if the commit was successful.
func (c *cache) end(docs []written, committed bool) {
	if c.limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.barred)
	if !committed {
		return
	}
	for _, d := range docs {
		c.drop(d.key) // a group may write a document twice
		if d.rev != 0 {
			c.put(d.key, &entry{rev: d.rev, data: bytes.Clone(d.data)})
		}
	}
}

// put adds an entry for a key that has none, and makes room for it; the lock is held.
func (c *cache) put(key store.Key, e *entry) {
	size := e.size(key)
	if size > c.limit/8 {
		return // it would cost too many others
	}
	for other := range c.entries {
		if c.bytes+size <= c.limit {
			break
		}
		c.drop(other) // whichever comes: those in use come back
	}
	c.entries[key] = e
	c.bytes += size
}

// drop removes what a key has; the lock is held.
func (c *cache) drop(key store.Key) {
	if e := c.entries[key]; e != nil {
		c.bytes -= e.size(key)
		delete(c.entries, key)
	}
}
