package state

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/storage"
)

// poolsDoc are the storage pools of a model.
type poolsDoc struct {
	Pools []storage.Pool `json:"pools,omitempty"` // by name

	// Users counts the additions of machines with volumes in any pool. Each
	// writes this document, so that none happens unseen while a pool is
	// being removed.
	Users int `json:"users,omitempty"`
}

// poolsID is the local id of that document in extrasC.
const poolsID = "pools"

// maxPools bounds how many storage pools a model has.
const maxPools = 500

func (d *poolsDoc) index(name string) int {
	return slices.IndexFunc(d.Pools, func(p storage.Pool) bool { return p.Name == name })
}

// Pools is the handle on the storage pools of a model.
type Pools struct{ st *State }

// Pools returns the handle on the storage pools of the model.
func (st *State) Pools() *Pools { return &Pools{st} }

// All returns every pool, by name.
func (ps *Pools) All(ctx context.Context) ([]storage.Pool, error) {
	d, err := readSite[poolsDoc](ctx, ps.st.c, ps.st.key(extrasC, poolsID))
	if err != nil {
		return nil, errors.Annotate(err, "cannot list storage pools")
	}
	return d.Pools, nil
}

// Add adds a pool. It returns an error satisfying errors.AlreadyExists, or
// errors.NotValid, also if there are too many.
func (ps *Pools) Add(ctx context.Context, p storage.Pool) error {
	err := p.Check()
	if err == nil {
		err = updateOwn(ctx, ps.st, ps.st.key(extrasC, poolsID), func(d *poolsDoc) error {
			if d.index(p.Name) >= 0 {
				return errors.AlreadyExistsf("storage pool %q", p.Name)
			}
			if len(d.Pools) >= maxPools {
				return typedf(errors.NotValid, "more than %d storage pools in one model", maxPools)
			}
			d.Pools = append(d.Pools, p)
			slices.SortFunc(d.Pools, func(a, b storage.Pool) int { return strings.Compare(a.Name, b.Name) })
			return nil
		})
	}
	return errors.Annotatef(err, "cannot create storage pool %q", p.Name)
}

// Remove removes a pool. It returns an error satisfying errors.NotFound, or
// errors.NotValid for one that volumes are in.
func (ps *Pools) Remove(ctx context.Context, name string) error {
	err := updateOwn(ctx, ps.st, ps.st.key(extrasC, poolsID), func(d *poolsDoc) error {
		at := d.index(name)
		if at < 0 {
			return errors.NotFoundf("storage pool %q", name)
		}
		// Whoever adds a machine with a volume meanwhile writes the document that
		// was read before, and so has all of this done again.
		machines, err := ps.st.Machines().All(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		for _, m := range machines {
			if slices.ContainsFunc(m.doc.Volumes, func(v Volume) bool { return v.Pool == name }) {
				return typedf(errors.NotValid, "storage pool %q is in use by machine %s", name, m.id)
			}
		}
		d.Pools = slices.Delete(d.Pools, at, at+1)
		return nil
	})
	return errors.Annotatef(err, "cannot remove storage pool %q", name)
}
