package state

import (
	"context"
	"maps"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// Model is a model as it was when it was read.
type Model struct {
	c    *Controller
	uuid string
	doc  *modelDoc
}

// UUID returns the model's UUID.
func (m *Model) UUID() string { return m.uuid }

// Tag returns the model's tag.
func (m *Model) Tag() tag.Tag { return tag.NewModelTag(m.uuid) }

// Name returns the model's name, unique among its owner's.
func (m *Model) Name() string { return m.doc.Name }

// Owner returns the name of the user who owns the model.
func (m *Model) Owner() string { return m.doc.Owner }

// Life returns where the model stands between creation and end.
func (m *Model) Life() life.Value { return m.doc.Life }

// Created returns when the model was added.
func (m *Model) Created() time.Time { return m.doc.Created }

// Constraints returns what fills the gaps in the constraints of new machines.
func (m *Model) Constraints() constraints.Value { return m.doc.Constraints }

// State returns the state that is bound to the model.
func (m *Model) State() *State {
	return &State{c: m.c, modelUUID: m.uuid, modelName: m.doc.Name}
}

// UserAccess returns the access that a user was granted; empty if none. See
// Models.Access for what the user may do after all.
func (m *Model) UserAccess(user string) access.Model { return m.doc.Access[userID(user)] }

// Users returns the access that was granted, by user name.
func (m *Model) Users() map[string]access.Model { return maps.Clone(m.doc.Access) }

// SetConstraints replaces the model's constraints. It returns an error satisfying
// errors.NotValid if the provider does not accept them. Machines that are there
// already keep theirs.
func (m *Model) SetConstraints(ctx context.Context, c constraints.Value) error {
	v, err := m.State().validator(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	unsupported, err := v.Validate(c)
	if err != nil {
		return errors.Trace(err)
	}
	if len(unsupported) > 0 {
		logger.Warningf("constraints of model %s: the provider ignores %v", m.uuid, unsupported)
	}
	err = m.update(ctx, func(d *modelDoc) error {
		d.Constraints = c
		return nil
	})
	return errors.Annotate(err, "cannot set model constraints")
}

// Grant raises a user's access to the model to level. It returns an error
// satisfying errors.NotFound for an unknown user, and errors.AlreadyExists
// if the user has at least that much.
func (m *Model) Grant(ctx context.Context, user string, level access.Model) error {
	if !level.Includes(access.Read) {
		return errors.NotValidf("model access %q", level)
	}
	u, err := m.c.Users().Get(ctx, user)
	if err != nil {
		return errors.Annotate(err, "cannot grant model access")
	}
	err = m.update(ctx, func(d *modelDoc) error {
		if d.Access[u.id].Includes(level) {
			return errors.AlreadyExistsf("user %s with %s access or greater", u.Name(), level)
		}
		d.Access = maps.Clone(d.Access)
		d.Access[u.id] = level
		return nil
	})
	return errors.Annotate(err, "cannot grant model access")
}

// Revoke lowers a user's access to less than level: revoking read leaves none. It
// returns an error satisfying errors.NotFound for a user without that access, and
// errors.NotValid for the owner's.
func (m *Model) Revoke(ctx context.Context, user string, level access.Model) error {
	id := userID(user)
	err := m.update(ctx, func(d *modelDoc) error {
		switch {
		case !level.Includes(access.Read):
			return errors.NotValidf("model access %q", level)
		case id == d.Owner:
			return errors.NotValidf("revoking the owner's access")
		case !d.Access[id].Includes(level):
			return errors.NotFoundf("%s access of user %s", level, user)
		}
		d.Access = maps.Clone(d.Access)
		switch level {
		case access.Read:
			delete(d.Access, id)
		case access.Write:
			d.Access[id] = access.Read
		case access.Admin:
			d.Access[id] = access.Write
		}
		return nil
	})
	return errors.Annotate(err, "cannot revoke model access")
}

// update applies a change to the model's document, as Machine.update does.
func (m *Model) update(ctx context.Context, change func(*modelDoc) error) error {
	err := m.c.run(ctx, func(int) ([]store.Op, error) {
		fresh, rev, err := m.read(ctx)
		if err != nil {
			return nil, err
		}
		d := *fresh
		if err := change(&d); err != nil {
			return nil, err
		}
		op, err := writeOp(siteKey(modelsC, m.uuid), rev, d, nil)
		return []store.Op{op}, err
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

func (m *Model) read(ctx context.Context) (*modelDoc, store.Rev, error) {
	d, err := m.c.store.Get(ctx, siteKey(modelsC, m.uuid))
	if errors.Is(err, errors.NotFound) {
		return nil, 0, noModel(m.uuid)
	}
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	doc, err := decode[modelDoc](d)
	return doc, d.Rev, err
}

// Refresh reads the model again. It returns an error satisfying
// errors.NotFound if the model has been removed.
func (m *Model) Refresh(ctx context.Context) error {
	fresh, _, err := m.read(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	m.doc = fresh
	return nil
}

// Destroy makes the model dying: it takes no new machines any more, the cleaner
// ends those that it has, and removes the model when it is empty. A model that is
// dying already is a success. The controller's model cannot be destroyed: that is an error
// satisfying errors.NotSupported.
func (m *Model) Destroy(ctx context.Context) error {
	if m.uuid == m.c.doc.ModelUUID {
		return errors.NotSupportedf("destroying the controller model")
	}
	err := m.c.run(ctx, func(int) ([]store.Op, error) {
		fresh, rev, err := m.read(ctx)
		if err != nil {
			return nil, err
		}
		if fresh.Life != life.Alive {
			return nil, nil
		}
		d := *fresh
		d.Life = life.Dying
		op, err := writeOp(siteKey(modelsC, m.uuid), rev, d, nil)
		if err != nil {
			return nil, err
		}
		cleanup, err := insertOp(modelKey(cleanupsC, m.uuid, destroyModel), cleanupDoc{Asked: m.c.now()}, nil)
		return []store.Op{op, cleanup}, err
	})
	return errors.Annotatef(err, "cannot destroy model %q", m.doc.Name)
}

// RecordLogin records that a user has logged in to the model at a time.
func (m *Model) RecordLogin(ctx context.Context, user string, at time.Time) error {
	return m.c.recordLogin(ctx, modelKey(loginsC, m.uuid, userID(user)), at)
}

// LastLogins returns when each user last logged in to the model, by user name.
// Those who never have are left out.
func (m *Model) LastLogins(ctx context.Context) (map[string]time.Time, error) {
	logins := map[string]time.Time{}
	q := store.Query{Collection: loginsC, Prefix: m.uuid + ":"}
	err := eachDoc(ctx, m.c.store, q, func(d store.Doc) error {
		l, err := decode[loginDoc](d)
		if err != nil {
			return err
		}
		_, user := splitID(d.ID)
		logins[user] = l.At
		return nil
	})
	return logins, errors.Annotate(err, "cannot list logins")
}
