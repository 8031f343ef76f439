package state

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/entity"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// State is one model of a controller. It may be used by many goroutines.
type State struct {
	c         *Controller
	modelUUID string
	modelName string
	fence     *Fence // nil means that nothing holds up writes
}

// Controller returns the controller that the model belongs to.
func (st *State) Controller() *Controller { return st.c }

// ModelUUID returns the model's UUID.
func (st *State) ModelUUID() string { return st.modelUUID }

// ModelName returns the model's name.
func (st *State) ModelName() string { return st.modelName }

// IsControllerModel reports whether this is the model of the controllers' own machines.
func (st *State) IsControllerModel() bool { return st.modelUUID == st.c.doc.ModelUUID }

// Model returns the model itself, or an error satisfying errors.NotFound
// once it has been removed.
func (st *State) Model(ctx context.Context) (*Model, error) {
	return st.c.Models().Get(ctx, st.modelUUID)
}

// Machines returns the handle on the model's machines.
func (st *State) Machines() *Machines { return &Machines{st} }

// ModelConfig returns the handle on the model's configuration.
func (st *State) ModelConfig() *ModelConfig { return &ModelConfig{st} }

// FindEntity returns the *Machine, *Model or *User that t names. It returns an error
// satisfying errors.NotFound if there is none, which is so for every other
// kind of tag too.
func (st *State) FindEntity(ctx context.Context, t tag.Tag) (any, error) {
	switch t.Kind() {
	case tag.MachineKind:
		return asEntity(st.machine(ctx, t.Id()))
	case tag.UserKind:
		return asEntity(st.c.Users().Get(ctx, t.Id()))
	case tag.ModelKind:
		return asEntity(st.c.Models().Get(ctx, t.Id()))
	}
	return nil, errors.NotFoundf("%s %s", t.Kind(), t.Id())
}

// asEntity widens e; on an error to nil, and not to an interface that holds a nil
// pointer.
func asEntity[E any](e E, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

// FindEntities is FindEntity for many tags at once: one answer for each, in the
// same order. All machines among them are read as one snapshot.
func (st *State) FindEntities(ctx context.Context, tags []tag.Tag) ([]entity.Found, error) {
	found := make([]entity.Found, len(tags))
	var ids []string
	var at []int
	for i, t := range tags {
		if t.Kind() == tag.MachineKind {
			ids, at = append(ids, t.Id()), append(at, i)
			continue
		}
		found[i].Entity, found[i].Err = st.FindEntity(ctx, t)
	}
	if len(ids) == 0 {
		return found, nil
	}
	machines, err := st.Machines().GetAll(ctx, ids)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for i, m := range machines {
		if m == nil {
			found[at[i]].Err = errors.NotFoundf("machine %s", ids[i])
			continue
		}
		found[at[i]].Entity = m
	}
	return found, nil
}

// key returns the key of one of the model's documents.
func (st *State) key(collection, id string) store.Key {
	return modelKey(collection, st.modelUUID, id)
}

// machine reads one machine.
func (st *State) machine(ctx context.Context, id string) (*Machine, error) {
	d, err := st.c.store.Get(ctx, st.key(machinesC, id))
	if errors.Is(err, errors.NotFound) {
		return nil, errors.NotFoundf("machine %s", id)
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get machine %s", id)
	}
	return st.decodeMachine(d)
}

// decodeMachine returns the machine that a document holds.
func (st *State) decodeMachine(d store.Doc) (*Machine, error) {
	doc, err := st.c.cache.machine(d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	_, id := splitID(d.ID)
	return &Machine{st: st, id: id, rev: d.Rev, doc: doc}, nil
}
