package state

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/store"
)

// Binary describes an agent's binary that the site keeps. The bytes are
// elsewhere, under their SHA-256.
type Binary struct {
	Version binaries.Version `json:"version"`
	SHA256  string           `json:"sha256"` // in lower-case hexadecimal
	Size    int64            `json:"size"`   // bytes
	Added   time.Time        `json:"added"`  // set by Add
}

// Binaries is the handle on what is known of the site's agent binaries.
type Binaries struct{ c *Controller }

// Binaries returns the handle on what is known of the site's agent binaries.
func (c *Controller) Binaries() *Binaries { return &Binaries{c} }

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Add records a binary. The same version with the same content is a success; with
// other content it is an error satisfying errors.AlreadyExists, for agents may run
// the first one already.
func (bs *Binaries) Add(ctx context.Context, b Binary) error {
	if !sha256Text.MatchString(b.SHA256) || b.Size <= 0 {
		return errors.NotValidf("agent binary %s of %d bytes with SHA-256 %q", b.Version, b.Size, b.SHA256)
	}
	b.Added = bs.c.now()
	key := siteKey(binariesC, b.Version.String())
	err := bs.c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := bs.c.store.GetAll(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		if docs[0].Rev == 0 {
			op, err := insertOp(key, b, nil)
			return []store.Op{op}, err
		}
		old, err := decode[Binary](docs[0])
		if err == nil && (old.SHA256 != b.SHA256 || old.Size != b.Size) {
			err = errors.AlreadyExistsf("agent binary %s with other content", b.Version)
		}
		return nil, err
	})
	return errors.Annotatef(err, "cannot add agent binary %s", b.Version)
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
