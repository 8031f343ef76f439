package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// store returns the client store.
func (a *app) store() *clientstore.Store {
	dir := a.env("SLIPWAY_DATA")
	if dir == "" {
		dir = filepath.Join(a.env("HOME"), ".local", "share", "slipway")
	}
	return clientstore.New(dir)
}

// site is a controller that was chosen, with what the store holds of it.
type site struct {
	name       string // of the controller
	controller clientstore.Controller
	account    clientstore.Account
	models     clientstore.Models
}

// userTag returns the tag of the site's user.
func (s site) userTag() string { return "user-" + s.account.User }

// selection returns what the flags, or else the environment, say of controller
// and model. Each may be empty.
func (a *app) selection() (controller, model string) {
	controller, model = a.controller, a.model
	if model == "" {
		model = a.env("SLIPWAY_MODEL")
	}
	if c, m, ok := strings.Cut(model, ":"); ok {
		if controller == "" {
			controller = c
		}
		model = m
	}
	if controller == "" {
		controller = a.env("SLIPWAY_CONTROLLER")
	}
	return controller, model
}

// site returns the chosen controller.
func (a *app) site() (site, error) {
	store := a.store()
	known, err := store.Read()
	if err != nil {
		return site{}, err
	}
	name, _ := a.selection()
	if len(known.Controllers) == 0 {
		return site{}, errors.Errorf("no controller is known in %s: copy the client folder of a controller's data directory there, or set SLIPWAY_DATA to it", store.Dir())
	}
	if name == "" {
		name = known.Current
	}
	names := strings.Join(slices.Sorted(maps.Keys(known.Controllers)), ", ")
	if name == "" {
		return site{}, usagef("no controller is current: choose one with -c; known are %s", names)
	}
	c, ok := known.Controllers[name]
	if !ok {
		return site{}, errors.NewNotFound(nil, fmt.Sprintf("controller %q is not known; known are %s", name, names))
	}
	account, ok := known.Accounts[name]
	if !ok || account.User == "" {
		return site{}, errors.Errorf("no account is known for controller %q: add one to accounts.yaml in %s", name, store.Dir())
	}
	return site{name: name, controller: c, account: account, models: known.Models[name]}, nil
}

// open connects to a model of the site, or to the controller itself if uuid is
// empty.
func (a *app) open(ctx context.Context, s site, uuid string) (*api.Conn, error) {
	conn, err := api.Open(ctx, a.info(s, uuid), api.DialOptions{})
	if err != nil {
		return nil, err
	}
	a.remember(ctx, s, conn)
	return conn, nil
}

// info returns how to log in.
func (a *app) info(s site, uuid string) api.Info {
	return api.Info{Addrs: s.controller.APIEndpoints, CACert: s.controller.CACert, ModelUUID: uuid,
		Tag: s.userTag(), Password: s.account.Password, Purpose: "slipway"}
}

// remember notes where the controller can be reached and whom to trust, if that
// has changed. The command goes on without it.
func (a *app) remember(ctx context.Context, s site, conn *api.Conn) {
	addrs, ca := conn.Addrs(), conn.CACert()
	if ca == s.controller.CACert && slices.Equal(slices.Sorted(slices.Values(addrs)), slices.Sorted(slices.Values(s.controller.APIEndpoints))) {
		return
	}
	err := a.store().Update(ctx, func(c *clientstore.Contents) error {
		known := c.Controllers[s.name]
		known.APIEndpoints, known.CACert = addrs, ca
		c.Controllers[s.name] = known
		return nil
	})
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: cannot note where the controller is and whom to trust: %v\n", err)
	}
}

// reconnector returns what keeps a connection to a model, once there has been
// one: the first try to connect is the only one.
func (a *app) reconnector(c chosen) *keeper {
	k := &keeper{}
	k.Info = a.info(c.site, c.uuid)
	k.Fatal = func(err error) bool { return !k.connected || api.IsFatal(err) }
	return k
}

// keeper is a Reconnector that knows whether it ever had a connection.
type keeper struct {
	api.Reconnector
	connected bool
}

// Run is Reconnector's.
func (k *keeper) Run(ctx context.Context, use func(context.Context, *api.Conn) error) error {
	return k.Reconnector.Run(ctx, func(ctx context.Context, conn *api.Conn) error {
		k.connected = true
		return use(ctx, conn)
	})
}

// openController connects to the chosen controller itself.
func (a *app) openController(ctx context.Context) (*api.Conn, site, error) {
	s, err := a.site()
	if err != nil {
		return nil, site{}, err
	}
	conn, err := a.open(ctx, s, "")
	return conn, s, err
}

// chosen is a model that was chosen.
type chosen struct {
	site
	model string // owner/name
	uuid  string
}

// openModel connects to the chosen model.
func (a *app) openModel(ctx context.Context) (*api.Conn, chosen, error) {
	c, err := a.chooseModel(ctx)
	if err != nil {
		return nil, chosen{}, err
	}
	conn, err := a.open(ctx, c.site, c.uuid)
	if errors.Is(err, kind.ModelNotFound) {
		a.forget(ctx, c)
		return nil, chosen{}, errors.NewNotFound(nil, fmt.Sprintf("model %q is no longer on controller %q: choose another with \"slipway switch\" or -m", c.model, c.name))
	}
	return conn, c, err
}

// chooseModel finds the chosen model, in the store or else by asking the
// controller.
func (a *app) chooseModel(ctx context.Context) (chosen, error) {
	s, err := a.site()
	if err != nil {
		return chosen{}, err
	}
	_, name := a.selection()
	if name == "" {
		name = s.models.Current
	}
	if name == "" {
		return chosen{}, usagef("no model is current: choose one with \"slipway switch\" or -m")
	}
	return a.findModel(ctx, s, name)
}

// findModel finds a model by name, or by UUID.
func (a *app) findModel(ctx context.Context, s site, name string) (chosen, error) {
	if tag.IsValidUUID(name) {
		for known, m := range s.models.Models {
			if m.UUID == name {
				return chosen{site: s, model: known, uuid: name}, nil
			}
		}
		return chosen{site: s, model: name, uuid: name}, nil
	}
	name = clientstore.QualifiedModel(s.account.User, name)
	if m, ok := s.models.Models[name]; ok {
		return chosen{site: s, model: name, uuid: m.UUID}, nil
	}
	conn, err := a.open(ctx, s, "")
	if err != nil {
		return chosen{}, err
	}
	defer conn.Close() // nothing is under way
	models, err := a.listModels(ctx, conn, s)
	if err != nil {
		return chosen{}, err
	}
	for _, m := range models {
		if qualified(m.Model) == name {
			return chosen{site: s, model: name, uuid: m.Model.UUID}, nil
		}
	}
	return chosen{}, errors.NewNotFound(nil, fmt.Sprintf("model %q is not on controller %q: \"slipway models\" shows those that are", name, s.name))
}

// listModels asks which models there are, and notes them in the store.
func (a *app) listModels(ctx context.Context, conn *api.Conn, s site) ([]params.UserModel, error) {
	models, err := modelmanager.New(conn).List(ctx, s.userTag())
	if err != nil {
		return nil, saying(err, "cannot list models")
	}
	slices.SortFunc(models, func(a, b params.UserModel) int { return strings.Compare(qualified(a.Model), qualified(b.Model)) })
	err = a.store().Update(ctx, func(c *clientstore.Contents) error {
		known := c.Models[s.name]
		before := known.Models
		known.Models = make(map[string]clientstore.Model, len(models))
		for _, m := range models {
			name := qualified(m.Model)
			model := before[name] // for what other clients have noted
			model.UUID, model.Type = m.Model.UUID, "iaas"
			known.Models[name] = model
		}
		if _, ok := known.Models[known.Current]; !ok {
			known.Current = ""
		}
		c.Models[s.name] = known
		return nil
	})
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: cannot note the models: %v\n", err)
	}
	return models, nil
}

// forget takes a model that is gone out of the store. The command has failed
// already, so that a failure here is not told.
func (a *app) forget(ctx context.Context, m chosen) {
	_ = a.store().Update(ctx, func(c *clientstore.Contents) error {
		known := c.Models[m.name]
		delete(known.Models, m.model)
		if known.Current == m.model {
			known.Current = ""
		}
		c.Models[m.name] = known
		return nil
	})
}

// qualified returns owner/name.
func qualified(m params.Model) string {
	return clientstore.QualifiedModel(strings.TrimPrefix(m.OwnerTag, "user-"), m.Name)
}
