package state

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/store"
)

// Binary describes an agent's binary that the site keeps.
type Binary struct {
	Version binaries.Version `json:"version"`
	SHA256  string           `json:"sha256"` // in lower-case hexadecimal
	Size    int64            `json:"size"`   // bytes
	Added   time.Time        `json:"added"`  // set when it is
	Blob    string           `json:"blob"`   // names its parts
}

// Binaries is the handle on what is known of the site's agent binaries.
type Binaries struct{ c *Controller }

// Binaries returns the handle on what is known of the site's agent binaries.
func (c *Controller) Binaries() *Binaries { return &Binaries{c} }

// add records a binary, whose parts are there, and removes the note about its
// upload. It reports false if the same content is kept already.
func (bs *Binaries) add(ctx context.Context, b Binary, note store.Key) (kept bool, err error) {
	b.Added = bs.c.now()
	key := siteKey(binariesC, b.Version.String())
	err = bs.c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := bs.c.store.GetAll(ctx, []store.Key{key, note})
		if err != nil {
			return nil, err
		}
		if kept = docs[0].Rev == 0; !kept {
			old, err := decode[Binary](docs[0])
			if err == nil && (old.SHA256 != b.SHA256 || old.Size != b.Size) {
				err = errors.AlreadyExistsf("agent binary %s with other content", b.Version)
			}
			return nil, err
		}
		if docs[1].Rev == 0 {
			return nil, errors.Timeoutf("upload of agent binary %s", b.Version)
		}
		op, err := insertOp(key, b, nil)
		return []store.Op{op, store.Remove(note, docs[1].Rev)}, err
	})
	return kept && err == nil, err
}

// All returns every binary, the oldest version first.
func (bs *Binaries) All(ctx context.Context) ([]Binary, error) {
	var found []Binary
	err := eachDoc(ctx, bs.c.store, store.Query{Collection: binariesC}, func(d store.Doc) error {
		b, err := decode[Binary](d)
		if err == nil {
			found = append(found, *b)
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b Binary) int { return a.Version.Number.Compare(b.Version.Number) })
	return found, errors.Annotate(err, "cannot list agent binaries")
}
