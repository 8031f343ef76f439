package state

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/store"
)

// modelDoc is a model as it is stored. A decoded document is shared and never
// changed.
type modelDoc struct {
	Name        string                  `json:"name"`
	Owner       string                  `json:"owner"` // a user's id
	Life        life.Value              `json:"life"`
	Created     time.Time               `json:"created"`
	Constraints constraints.Value       `json:"constraints,omitzero"`
	Access      map[string]access.Model `json:"access"` // by user's id
}

// Models is the handle on the site's models.
type Models struct{ c *Controller }

// ModelSpec says what model to add.
type ModelSpec struct {
	Name        string         // unique among the owner's models
	Owner       string         // a user's name
	Config      map[string]any // beside name and uuid, which are set; type is required
	Constraints constraints.Value

	uuid string // empty means a new one
}

// Add adds a model, to which its owner has admin access. It returns an error
// satisfying errors.AlreadyExists if the owner has one of this name,
// errors.NotFound if there is no such user, and errors.NotValid for a bad name or
// configuration.
func (ms *Models) Add(ctx context.Context, spec ModelSpec) (*Model, error) {
	m, err := ms.add(ctx, spec)
	return m, errors.Annotatef(err, "cannot add model %q", spec.Name)
}

func (ms *Models) add(ctx context.Context, spec ModelSpec) (*Model, error) {
	owner, err := ms.c.Users().Get(ctx, spec.Owner)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if spec.Owner = owner.id; owner.IsDisabled() {
		return nil, errors.NotValidf("disabled user %q", spec.Owner)
	}
	ops, uuid, err := spec.ops(ms.c.now(), ms.c.policy)
	if err != nil {
		return nil, errors.Trace(err)
	}
	err = ms.c.run(ctx, func(attempt int) ([]store.Op, error) {
		_, err := ms.c.store.Get(ctx, siteKey(claimsC, modelClaim(spec.Owner, spec.Name)))
		if err == nil {
			return nil, errors.AlreadyExistsf("model %q of user %s", spec.Name, spec.Owner)
		}
		if !errors.Is(err, errors.NotFound) {
			return nil, errors.Trace(err)
		}
		return ops, nil
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return ms.Get(ctx, uuid)
}

// maxModelName bounds the names of new models, in bytes: they are logged, and in every client's
// files.
const maxModelName = 255

// ops returns the batch that inserts the model. A nil policy accepts everything.
func (spec *ModelSpec) ops(now time.Time, policy Policy) (ops []store.Op, uuid string, err error) {
	if len(spec.Name) > maxModelName {
		return nil, "", errors.NotValidf("model name of %d bytes (at most %d)", len(spec.Name), maxModelName)
	}
	if !tag.IsValidModelName(spec.Name) {
		return nil, "", errors.NotValidf("model name %q (lower-case letters, digits and hyphens)", spec.Name)
	}
	if uuid = spec.uuid; uuid == "" {
		uuid = newUUID()
	}
	attrs := maps.Clone(spec.Config)
	if attrs == nil {
		attrs = map[string]any{}
	}
	attrs[config.Name], attrs[config.UUID] = spec.Name, uuid
	cfg, err := config.New(attrs)
	if err == nil && policy != nil {
		cfg, err = policy.CheckConfig(cfg, nil)
	}
	if err != nil {
		return nil, "", errors.Trace(err)
	}
	for _, d := range []struct {
		key store.Key
		v   any
	}{
		{siteKey(claimsC, modelClaim(spec.Owner, spec.Name)), claimDoc{Holder: uuid}},
		{siteKey(modelsC, uuid), modelDoc{Name: spec.Name, Owner: spec.Owner, Life: life.Alive, Created: now,
			Constraints: spec.Constraints, Access: map[string]access.Model{spec.Owner: access.Admin}}},
		{modelKey(configsC, uuid, configID), configDoc{Attrs: cfg.SetAttrs()}},
	} {
		op, err := insertOp(d.key, d.v, nil)
		if err != nil {
			return nil, "", errors.Trace(err)
		}
		ops = append(ops, op)
	}
	return ops, uuid, nil
}

// claimDoc keeps a name for one holder.
type claimDoc struct {
	Holder string `json:"holder"`
}

func modelClaim(owner, name string) string { return "model:" + owner + "/" + name }

// Get returns a model, or an error satisfying errors.NotFound.
func (ms *Models) Get(ctx context.Context, uuid string) (*Model, error) {
	d, err := ms.c.store.Get(ctx, siteKey(modelsC, uuid))
	if errors.Is(err, errors.NotFound) {
		return nil, noModel(uuid)
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get model %q", uuid)
	}
	return ms.decode(d)
}

// noModel returns the error for a missing model; it is errors.NotFound too.
func noModel(uuid string) error {
	return errors.WithType(errors.NotFoundf("model %q", uuid), kind.ModelNotFound)
}

func (ms *Models) decode(d store.Doc) (*Model, error) {
	doc, err := decode[modelDoc](d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	_, uuid := splitID(d.ID)
	return &Model{c: ms.c, uuid: uuid, doc: doc}, nil
}

// ByName returns the model of this name and owner, or an error satisfying
// errors.NotFound.
func (ms *Models) ByName(ctx context.Context, owner, name string) (*Model, error) {
	missing := errors.NotFoundf("model %s/%s", owner, name)
	d, err := ms.c.store.Get(ctx, siteKey(claimsC, modelClaim(userID(owner), name)))
	if errors.Is(err, errors.NotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get model %s/%s", owner, name)
	}
	claim, err := decode[claimDoc](d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	m, err := ms.Get(ctx, claim.Holder)
	if errors.Is(err, errors.NotFound) {
		return nil, missing
	}
	return m, errors.Trace(err)
}

// All returns every model, by owner and name.
func (ms *Models) All(ctx context.Context) ([]*Model, error) {
	var found []*Model
	err := eachDoc(ctx, ms.c.store, store.Query{Collection: modelsC}, func(d store.Doc) error {
		m, err := ms.decode(d)
		found = append(found, m)
		return err
	})
	if err != nil {
		return nil, errors.Annotate(err, "cannot list models")
	}
	slices.SortFunc(found, func(a, b *Model) int {
		return strings.Compare(modelClaim(a.doc.Owner, a.doc.Name), modelClaim(b.doc.Owner, b.doc.Name))
	})
	return found, nil
}

// ForUser returns the models to which a user has access of their own, by owner
// and name. A superuser's access to all is not looked at.
func (ms *Models) ForUser(ctx context.Context, user string) ([]*Model, error) {
	all, err := ms.All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return slices.DeleteFunc(all, func(m *Model) bool { return m.UserAccess(user) == "" }), nil
}

// Access returns what a user may do with a model: none for a user who is
// missing or disabled, admin for a superuser, otherwise what was granted. It
// returns an error satisfying errors.NotFound if the model is missing.
func (ms *Models) Access(ctx context.Context, user, modelUUID string) (access.Model, error) {
	docs, err := ms.c.store.GetAll(ctx, []store.Key{siteKey(usersC, userID(user)), siteKey(modelsC, modelUUID)})
	if err != nil {
		return "", errors.Annotatef(err, "cannot get access of user %s", user)
	}
	if docs[1].Rev == 0 {
		return "", noModel(modelUUID)
	}
	if docs[0].Rev == 0 {
		return "", nil
	}
	u, err := decode[userDoc](docs[0])
	if err != nil {
		return "", errors.Trace(err)
	}
	m, err := decode[modelDoc](docs[1])
	switch {
	case err != nil:
		return "", errors.Trace(err)
	case u.Disabled:
		return "", nil
	case u.Access == access.Superuser:
		return access.Admin, nil
	}
	return m.Access[userID(user)], nil
}
