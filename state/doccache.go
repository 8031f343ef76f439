package state

import (
	"sync"

	"github.com/slipway-project/slipway/store"
)

// maxCached bounds how many decoded machines are kept: about 2 kB each.
const maxCached = 20_000

// docCache keeps decoded machines. The store is asked all the same at every read; a
// kept machine only saves decoding, and only at the very revision that the
// store answers with, so it is never out of date.
type docCache struct {
	mu   sync.RWMutex
	docs map[store.Key]cachedDoc
}

type cachedDoc struct {
	rev store.Rev
	doc *machineDoc
}

// machine returns what d holds.
func (c *docCache) machine(d store.Doc) (*machineDoc, error) {
	c.mu.RLock()
	kept := c.docs[d.Key]
	c.mu.RUnlock()
	if kept.doc != nil && kept.rev == d.Rev {
		return kept.doc, nil
	}
	doc, err := decode[machineDoc](d)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.docs == nil {
		c.docs = map[store.Key]cachedDoc{}
	}
	if kept := c.docs[d.Key]; kept.rev > d.Rev {
		return doc, nil // someone has read a newer one
	}
	for key := range c.docs {
		if len(c.docs) < maxCached {
			break
		}
		delete(c.docs, key) // whichever comes: those in use come back
	}
	c.docs[d.Key] = cachedDoc{d.Rev, doc}
	return doc, nil
}
