package apiserver

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// scope says on which kind of connection a facade can be called.
type scope int

// The scopes of facades.
const (
	onModel scope = 1 << iota
	onController
	onBoth = onModel | onController
)

// String returns the scope as the golden file shows it.
func (s scope) String() string {
	switch s {
	case onModel:
		return "model"
	case onController:
		return "controller"
	}
	return "both"
}

// who says who may call a facade at all; the facade may ask for more.
type who struct {
	name string
	ok   func(a common.Authorizer) bool
}

// Who may call a facade.
var (
	anyone  = who{"anyone", func(common.Authorizer) bool { return true }}
	agents  = who{"agents", func(a common.Authorizer) bool { return a.AuthMachineAgent() }}
	readers = who{"people who may read the model", func(a common.Authorizer) bool { return a.ModelAccess().Includes(access.Read) }}
	writers = who{"people who may change the model", func(a common.Authorizer) bool { return a.ModelAccess().Includes(access.Write) }}
	people  = who{"people", common.AuthClient}

	superusers = who{"superusers", func(a common.Authorizer) bool { return a.ControllerAccess().Includes(access.Superuser) }}

	managers = who{"managers", func(a common.Authorizer) bool { return a.AuthModelManager() }}

	managersAndSuperusers = who{"managers and superusers", func(a common.Authorizer) bool {
		return a.AuthModelManager() || a.ControllerAccess().Includes(access.Superuser)
	}}
)

// facade is one version of one facade.
type facade struct {
	name    string
	version int
	scope   scope
	who     who
	objects bool // requests name an object; without, the only object is ""
	methods map[string]method
	make    func(st *state.State, c common.Connection) (reflect.Value, error)
}

// method is one method of a facade.
type method struct {
	*rpc.Method
	effect  effect
	despite bool // whether no block of changes stops it
}

// versions are all versions of one facade.
type versions struct {
	byNumber map[int]*facade
	scope    scope // of any of them
}

// maker makes a facade of a type that is known.
type maker struct {
	typ  reflect.Type
	make func(st *state.State, c common.Connection) (reflect.Value, error)
}

// of is the maker that calls a facade's constructor.
func of[T any](make func(st *state.State, c common.Connection) (*T, error)) maker {
	return maker{reflect.TypeFor[*T](), func(st *state.State, c common.Connection) (reflect.Value, error) {
		f, err := make(st, c)
		return reflect.ValueOf(f), err
	}}
}

// stateless is of, for facades that need no state.
func stateless[T any](make func(c common.Connection) (*T, error)) maker {
	return of(func(_ *state.State, c common.Connection) (*T, error) { return make(c) })
}

// registry holds the facades of a server. It does not change once it is made.
type registry struct {
	byName map[string]*versions
	lists  map[scope][]params.FacadeVersions // for the login's answer
}

// newRegistry returns the registry of a table. It returns an error for a
// facade that is there twice, or has a method which requests cannot call, or one of
// which no row of effects says what it does: no server starts with such a table.
func newRegistry(table []row, effects []effectsRow) (*registry, error) {
	r := &registry{byName: make(map[string]*versions), lists: make(map[scope][]params.FacadeVersions)}
	for _, row := range table {
		methods, err := rpc.MethodsOf(row.make.typ)
		if err != nil {
			return nil, errors.Annotatef(err, "facade %s(%d)", row.name, row.version)
		}
		all := r.byName[row.name]
		if all == nil {
			all = &versions{byNumber: make(map[int]*facade)}
			r.byName[row.name] = all
		}
		if all.byNumber[row.version] != nil {
			return nil, errors.AlreadyExistsf("facade %s(%d)", row.name, row.version)
		}
		all.scope |= row.scope
		f := &facade{name: row.name, version: row.version, scope: row.scope, who: row.who, objects: row.objects, make: row.make.make}
		if f.methods, err = methodsOf(row, methods, effects); err != nil {
			return nil, err
		}
		all.byNumber[row.version] = f
	}
	for _, s := range []scope{onModel, onController} {
		r.lists[s] = r.list(s)
	}
	return r, nil
}

// methodsOf returns the methods of a row's facade by name.
func methodsOf(row row, all *rpc.Methods, effects []effectsRow) (map[string]method, error) {
	known := effectsOf(effects, row.name)
	out := make(map[string]method, len(all.Names()))
	for _, name := range all.Names() {
		if known[name] == unknown {
			return nil, errors.NotValidf("facade %s(%d): method %s, which is in no row of effects(),", row.name, row.version, name)
		}
		m, _ := all.Get(name) // it is there: it was listed
		out[name] = method{m, known[name], despite()[row.name+"."+name] != ""}
	}
	return out, nil
}

// list returns the facades that can be called on one kind of connection.
func (r *registry) list(s scope) []params.FacadeVersions {
	var out []params.FacadeVersions
	for name, all := range r.byName {
		v := params.FacadeVersions{Name: name}
		for version, f := range all.byNumber {
			if f.scope&s != 0 {
				v.Versions = append(v.Versions, version)
			}
		}
		if len(v.Versions) > 0 {
			slices.Sort(v.Versions)
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b params.FacadeVersions) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// find returns the method that a request names, on one kind of connection.
func (r *registry) find(s scope, q rpc.Request) (*facade, method, error) {
	all := r.byName[q.Type]
	if err := checkScope(s, q.Type, all); err != nil {
		return nil, method{}, err
	}
	if all == nil || all.byNumber[q.Version] == nil {
		return nil, method{}, errNoFacade(q)
	}
	f := all.byNumber[q.Version]
	m, ok := f.methods[q.Method]
	if !ok {
		return nil, method{}, errNoMethod(q)
	}
	return f, m, nil
}

// checkScope refuses facades of the other kind of connection. A connection to
// the site refuses everything that it does not know to be its own.
func checkScope(s scope, name string, all *versions) error {
	if all != nil && all.scope&s != 0 {
		return nil
	}
	if all == nil && (s == onModel || name == adminName) {
		return nil // told to be missing instead
	}
	return errors.WithType(errors.Errorf("facade %q not supported for %v API connection", name, s), errors.NotSupported)
}

// errNoFacade says that there is no such facade, or no such version.
func errNoFacade(q rpc.Request) error {
	text := fmt.Sprintf("unknown object type %q", q.Type)
	if q.Version != 0 {
		text = fmt.Sprintf("unknown version (%d) of interface %q", q.Version, q.Type)
	}
	return errors.WithType(errors.New(text), errors.NotImplemented)
}

// errNoMethod says that a facade has no such method.
func errNoMethod(q rpc.Request) error {
	name := q.Type
	if q.Version != 0 {
		name = fmt.Sprintf("%s(%d)", q.Type, q.Version)
	}
	return errors.WithType(errors.Errorf("no such request - method %s.%s is not implemented", name, q.Method), errors.NotImplemented)
}
