package state

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// Machines is the handle on a model's machines and containers.
type Machines struct{ st *State }

// Get returns a machine, or an error satisfying errors.NotFound.
func (ms *Machines) Get(ctx context.Context, id string) (*Machine, error) {
	return ms.st.machine(ctx, id)
}

// GetAll returns the machines with these ids, one for each, in the same order,
// read as one snapshot; a missing one is nil.
func (ms *Machines) GetAll(ctx context.Context, ids []string) ([]*Machine, error) {
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = ms.st.key(machinesC, id)
	}
	docs, err := ms.st.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Annotate(err, "cannot get machines")
	}
	found := make([]*Machine, len(ids))
	for i, d := range docs {
		if d.Rev == 0 {
			continue
		}
		if found[i], err = ms.st.decodeMachine(d); err != nil {
			return nil, errors.Trace(err)
		}
	}
	return found, nil
}

// All returns every machine and container of the model, in the order of tag.CompareMachines.
func (ms *Machines) All(ctx context.Context) ([]*Machine, error) {
	return ms.list(ctx, store.Query{Collection: machinesC, Prefix: ms.st.modelUUID + ":"})
}

// InGroup returns the machines of a distribution group, in the order of tag.CompareMachines.
func (ms *Machines) InGroup(ctx context.Context, group string) ([]*Machine, error) {
	return ms.list(ctx, store.Query{Collection: machinesC, Index: groupIndex, Value: ms.st.modelUUID + ":" + group})
}

// WithTransientErrors returns the machines whose start failed in a way that
// may pass: without an instance, in status error, with the data key
// "transient" true. They are in the order of tag.CompareMachines.
func (ms *Machines) WithTransientErrors(ctx context.Context) ([]*Machine, error) {
	return ms.list(ctx, store.Query{Collection: machinesC, Index: transientIndex, Value: ms.st.modelUUID})
}

func (ms *Machines) list(ctx context.Context, q store.Query) ([]*Machine, error) {
	var found []*Machine
	err := eachDoc(ctx, ms.st.c.store, q, func(d store.Doc) error {
		m, err := ms.st.decodeMachine(d)
		found = append(found, m)
		return err
	})
	if err != nil {
		return nil, errors.Annotate(err, "cannot list machines")
	}
	slices.SortFunc(found, func(a, b *Machine) int { return tag.CompareMachines(a.id, b.id) })
	return found, nil
}

// eachDoc calls fn for every document of a listing, page by page.
func eachDoc(ctx context.Context, s store.Store, q store.Query, fn func(store.Doc) error) error {
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return errors.Trace(err)
		}
		for _, d := range page.Docs {
			if err := fn(d); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
