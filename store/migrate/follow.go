package migrate

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// follow writes the source's changes to the target until the fence. Changes
// whose history was lost, and those that the feed tells of after the fence, are
// found by the comparison.
func (m *migration) follow(ctx context.Context, feed store.Feed) error {
	fencing, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	fenced := make(chan struct{})
	go func() { // ends with fencing
		defer close(fenced)
		failed = m.Fence(fencing)
	}()
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() { <-fenced; stop() }() // fenced is closed before follow returns
	err := m.followUntil(following, feed)
	if ctx.Err() != nil || err != nil && following.Err() == nil {
		cancel()
		<-fenced
		if ctx.Err() != nil {
			return errors.Trace(ctx.Err())
		}
		return errors.Annotate(err, "cannot follow the source")
	}
	<-fenced
	return errors.Annotate(failed, "cannot fence the source")
}

// followUntil writes changes until ctx ends, or history is lost.
func (m *migration) followUntil(ctx context.Context, feed store.Feed) error {
	for {
		changes, err := feed.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrHistoryLost):
			logger.Warningf("the source changes faster than it is followed: the comparison finds the rest")
			return nil
		case err != nil:
			return errors.Trace(err)
		}
		keys := m.keys(changes)
		for len(keys) > 0 {
			n := min(len(keys), batchDocs)
			if _, err := m.sync(ctx, keys[:n]); err != nil {
				if ctx.Err() != nil {
					return nil // the comparison finds the rest
				}
				return errors.Trace(err)
			}
			keys = keys[n:]
		}
		m.result.Changes += len(changes)
	}
}

// keys returns the documents that changes are of, each once.
func (m *migration) keys(changes []store.Change) []store.Key {
	declared := make(map[string]bool, len(m.Collections))
	for _, col := range m.Collections {
		declared[col.Name] = true
	}
	seen := make(map[store.Key]bool, len(changes))
	var keys []store.Key
	for _, c := range changes {
		if !seen[c.Key] && !m.held(c.Key) && declared[c.Collection] {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// compareAll compares every document of both stores, and repairs what differs,
// until a comparison finds no difference.
func (m *migration) compareAll(ctx context.Context) error {
	for round := range maxRounds {
		differ := 0
		m.result.Documents = 0
		for _, col := range m.Collections {
			n, err := m.compare(ctx, col.Name)
			if err != nil {
				return errors.Annotatef(err, "cannot compare %s", col.Name)
			}
			differ += n
		}
		if differ == 0 {
			return nil
		}
		if round == 0 {
			m.result.Repaired = differ
		}
		logger.Debugf("comparison %d found %d documents that differ", round+1, differ)
	}
	return errors.Annotatef(ErrBusy, "after %d comparisons", maxRounds)
}

// compare compares a collection, repairs what differs, and returns how many
// documents did. It goes through both stores once: each of the source's pages is
// compared with the same ids of the target, and the target's pages show what
// the source does not have.
func (m *migration) compare(ctx context.Context, collection string) (differ int, err error) {
	check := func(docs []store.Doc, from bool) error {
		keys := make([]store.Key, 0, len(docs))
		for _, d := range docs {
			if !m.held(d.Key) {
				keys = append(keys, d.Key)
			}
		}
		if from {
			m.result.Documents += len(keys)
		}
		if len(keys) == 0 {
			return nil
		}
		n, err := m.sync(ctx, keys)
		differ += n
		return err
	}
	err = m.pages(ctx, m.From, collection, func(docs []store.Doc) error { return check(docs, true) })
	if err == nil {
		err = m.pages(ctx, m.To, collection, func(docs []store.Doc) error { return check(docs, false) })
	}
	return differ, errors.Trace(err)
}
