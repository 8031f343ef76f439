package store

import (
	"context"

	"github.com/juju/errors"
)

// ErrConflict says that an assertion of a batch did not hold: a document that
// was to be missing exists, or one is not at the revision that was relied on.
// Nothing of the batch has been applied. The caller reads afresh and builds the
// batch again; Run does so.
const ErrConflict = errors.ConstError("document changed meanwhile")

// ErrHistoryLost says that the changes after a position are no longer kept. The
// reader opens a new feed from now, lists afresh, and announces that everything
// may have changed.
const ErrHistoryLost = errors.ConstError("change history lost")

// ErrClosed says that the store has been closed.
const ErrClosed = errors.ConstError("store is closed")

// Rev is the revision of a document. Zero means that the document is missing.
// A revision never repeats for an id, also not across removal and new
// insertion, and a replacement's revision is greater than the one it replaces.
type Rev int64

// Position is a place in a store's stream of changes. It is opaque, belongs to
// one store, and may be kept across restarts. The empty position means "now".
type Position string

// Key names a document.
type Key struct {
	Collection string
	ID         string
}

// Doc is a document as it was read. Its bytes must not be changed in place.
// A Doc with Rev zero stands for a missing document.
type Doc struct {
	Key
	Rev  Rev
	Data []byte // UTF-8 JSON; the store does not look into it
}

// Collection declares a collection and its indexes.
type Collection struct {
	Name    string
	Indexes []string // names of the index values that Op.Index may carry
}

// Query says which documents of a collection to list, in ascending byte order
// of id. Prefix, or Index with Value, or neither, narrows it.
type Query struct {
	Collection string
	Prefix     string // of the id
	Index      string // a declared index; the documents whose value equals Value
	Value      string
	After      string // list only ids greater than this; for the next page
	Limit      int    // documents a page; 0 means 1,000
}

// Page is a part of a listing.
type Page struct {
	Docs []Doc
	Next string // the After of the next page; empty when this page is the last
}

// Change says that a document was written or removed. Changes carry no
// content: a reader gets the document if it wants it.
type Change struct {
	Position Position // resuming after it yields the changes that follow
	Key
	Rev     Rev // the document's new revision; for a removal, one greater than its last
	Removed bool
}

// Feed is an ordered stream of changes without gaps. It is used by one
// goroutine at a time; Close may be called from any.
type Feed interface {
	// Next waits until at least one change is there, or ctx is done. It
	// returns an error satisfying errors.Is(err, ErrHistoryLost) when changes
	// were dropped before they were read, and ErrClosed after Close of the feed
	// or the store.
	Next(ctx context.Context) ([]Change, error)
	// Close ends the feed and releases a blocked Next. It may be called twice.
	Close() error
}

// Store keeps documents. All methods may be called concurrently.
type Store interface {
	// Get returns a document, or an error satisfying errors.NotFound.
	Get(ctx context.Context, key Key) (Doc, error)

	// GetAll returns the documents with these keys, one for each key, in the
	// same order, read as one snapshot; a missing one has Rev zero.
	GetAll(ctx context.Context, keys []Key) ([]Doc, error)

	// List returns one page of a listing. Pages of one listing are each
	// consistent, but not with one another. An undeclared collection or index
	// is an error satisfying errors.NotValid.
	List(ctx context.Context, q Query) (Page, error)

	// Apply applies all operations or none, and returns when they are durable.
	// It returns an error satisfying errors.Is(err, ErrConflict) when an
	// assertion does not hold, and one satisfying errors.NotValid for a
	// malformed batch: no id, an undeclared collection, or two operations
	// that name the same document.
	Apply(ctx context.Context, ops []Op) error

	// Changes opens a feed of the changes after a position; the empty position
	// means from now on. It returns ErrHistoryLost if the position is too old,
	// and an error satisfying errors.NotValid if it is not this store's.
	Changes(ctx context.Context, after Position) (Feed, error)

	// Close ends the store. Calls under way finish or return ErrClosed.
	Close() error
}
