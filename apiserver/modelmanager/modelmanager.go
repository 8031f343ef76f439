// Package modelmanager is the facade ModelManager, version 2: the models of a
// site, for people.
package modelmanager

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	ControllerUUID() string
	// Models returns the models that a user was given access to; all of them
	// for the empty name.
	Models(ctx context.Context, user string) ([]Model, error)
	// Model returns a model, or an error satisfying errors.NotFound.
	Model(ctx context.Context, uuid string) (Model, error)
	// Add adds a model. Settings that are not in config come from the
	// controller's model where the provider needs them.
	Add(ctx context.Context, name, owner string, config map[string]any) (Model, error)
}

// Model is a model of the site.
type Model interface {
	Described
	Shared
	Destroy(ctx context.Context) error
	// Details returns what is not part of the model itself.
	Details(ctx context.Context) (Details, error)
}

// Shared is who may do what in a model.
type Shared interface {
	UserAccess(user string) access.Model
	Users() map[string]access.Model
	Grant(ctx context.Context, user string, level access.Model) error
	Revoke(ctx context.Context, user string, level access.Model) error
}

// Described is what a model is.
type Described interface {
	UUID() string
	Name() string
	Owner() string
	Life() life.Value
}

// Details are what is in a model, and who was there.
type Details struct {
	Provider      string
	DefaultSeries string
	IsController  bool
	Logins        map[string]time.Time // by user's name
}

// ModelManager is the facade of one connection.
type ModelManager struct {
	backend  Backend
	auth     common.Authorizer
	sessions common.Sessions
}

// newModelManager returns the facade, or ErrPerm if the caller is no person.
func newModelManager(backend Backend, c common.Connection) (*ModelManager, error) {
	if !common.AuthClient(c.Auth) {
		return nil, common.ErrPerm
	}
	return &ModelManager{backend, c.Auth, c.Sessions}, nil
}

// superuser reports whether the caller may do everything.
func (m *ModelManager) superuser() bool {
	return m.auth.ControllerAccess().Includes(access.Superuser)
}

// own returns the caller's name.
func (m *ModelManager) own() string { return m.auth.AuthTag().Id() }

// ListModels returns the models that a user may see; people other than
// superusers may ask for their own alone. To superusers, their own are all.
func (m *ModelManager) ListModels(ctx context.Context, args params.Entity) (params.UserModelList, error) {
	t, err := tag.ParseUserTag(args.Tag)
	if err != nil {
		return params.UserModelList{}, err
	}
	if t.Id() != m.own() && !m.superuser() {
		return params.UserModelList{}, common.ErrPerm
	}
	user := t.Id()
	if user == m.own() && m.superuser() {
		user = ""
	}
	models, err := m.backend.Models(ctx, user)
	if err != nil {
		return params.UserModelList{}, errors.Trace(err)
	}
	list := params.UserModelList{UserModels: make([]params.UserModel, len(models))}
	for i, model := range models {
		details, err := model.Details(ctx)
		if err != nil {
			return params.UserModelList{}, errors.Trace(err)
		}
		list.UserModels[i] = params.UserModel{
			Model:          params.Model{Name: model.Name(), UUID: model.UUID(), OwnerTag: userTag(model.Owner())},
			LastConnection: lastLogin(details.Logins, t.Id()),
		}
	}
	return list, nil
}

// lastLogin returns when a user was last in a model; nil means never.
func lastLogin(logins map[string]time.Time, user string) *time.Time {
	return common.Since(logins[user])
}

// CreateModel makes a model. People may make models of their own if they may
// make any; only superusers may make them for others.
func (m *ModelManager) CreateModel(ctx context.Context, args params.ModelCreateArgs) (params.ModelInfo, error) {
	if !m.auth.ControllerAccess().Includes(access.AddModel) {
		return params.ModelInfo{}, common.ErrPerm
	}
	owner, err := tag.ParseUserTag(args.OwnerTag)
	if err != nil {
		return params.ModelInfo{}, err
	}
	if owner.Id() != m.own() && !m.superuser() {
		return params.ModelInfo{}, common.ErrPerm
	}
	model, err := m.backend.Add(ctx, args.Name, owner.Id(), args.Config)
	if err != nil {
		return params.ModelInfo{}, errors.Trace(err)
	}
	return m.info(ctx, model)
}

// DestroyModels begins to end models, with all that is in them.
func (m *ModelManager) DestroyModels(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Entities))
	for i, e := range args.Entities {
		model, err := m.find(ctx, e.Tag, access.Admin)
		if err == nil {
			err = model.Destroy(ctx)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}, nil
}

// ModelInfo describes models. Only who may administer one sees the other people
// in it.
func (m *ModelManager) ModelInfo(ctx context.Context, args params.Entities) (params.ModelInfoResults, error) {
	results := make([]params.ModelInfoResult, len(args.Entities))
	for i, e := range args.Entities {
		model, err := m.find(ctx, e.Tag, access.Read)
		if err == nil {
			var info params.ModelInfo
			info, err = m.info(ctx, model)
			results[i].Result = &info
		}
		if err != nil {
			results[i] = params.ModelInfoResult{Error: common.ServerError(err)}
		}
	}
	return params.ModelInfoResults{Results: results}, nil
}

// find returns the model that a tag names, if the caller may do this much with
// it. Others are not told whether there is such a model.
func (m *ModelManager) find(ctx context.Context, text string, level access.Model) (Model, error) {
	t, err := tag.ParseModelTag(text)
	if err != nil {
		return nil, err
	}
	model, err := m.backend.Model(ctx, t.Id())
	switch {
	case err != nil && (m.superuser() || !errors.Is(err, errors.NotFound)):
		return nil, errors.Trace(err)
	case err != nil || !m.superuser() && !model.UserAccess(m.own()).Includes(level):
		return nil, common.ErrPerm
	}
	return model, nil
}

func (m *ModelManager) info(ctx context.Context, model Model) (params.ModelInfo, error) {
	d, err := model.Details(ctx)
	if err != nil {
		return params.ModelInfo{}, errors.Trace(err)
	}
	info := params.ModelInfo{
		Name:           model.Name(),
		UUID:           model.UUID(),
		ControllerUUID: m.backend.ControllerUUID(),
		IsController:   d.IsController,
		ProviderType:   d.Provider,
		DefaultSeries:  d.DefaultSeries,
		CloudTag:       "cloud-" + d.Provider,
		OwnerTag:       userTag(model.Owner()),
		Life:           string(model.Life()),
		Status:         params.EntityStatus{Status: "available"},
		Users:          []params.ModelUserInfo{},
		Machines:       []params.ModelMachineInfo{},
	}
	if model.Life() != life.Alive {
		info.Status.Status = "destroying"
	}
	users := model.Users()
	for _, name := range sortedKeys(users) {
		if name == m.own() || m.superuser() || model.UserAccess(m.own()).Includes(access.Admin) {
			info.Users = append(info.Users, params.ModelUserInfo{
				UserName: name, Access: string(users[name]), LastConnection: lastLogin(d.Logins, name),
			})
		}
	}
	return info, nil
}

// userTag returns the tag of a user by name; names are checked when users are
// added.
func userTag(name string) string { return tag.UserKind + "-" + name }
