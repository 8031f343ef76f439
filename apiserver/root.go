package apiserver

import (
	"context"
	"reflect"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// root answers the requests of a connection that is logged in.
type root struct {
	registry *registry
	scope    scope
	state    *state.State
	conn     common.Connection // without an object

	mu      sync.Mutex
	objects map[*facade]reflect.Value // made at their first use
}

var _ rpc.Root = (*root)(nil)

// Call implements rpc.Root. Parameters are decoded before anything is asked
// about the caller.
func (r *root) Call(ctx context.Context, q rpc.Request, raw []byte) (any, error) {
	f, m, err := r.registry.find(r.scope, q)
	if err != nil {
		return nil, wire(err)
	}
	args, err := m.Decode(raw)
	if err != nil {
		return nil, &rpc.Error{Message: err.Error()}
	}
	object, err := r.object(f, q.ID)
	if err != nil {
		return nil, wire(err)
	}
	result, err := m.Call(ctx, object, args)
	return result, wire(err)
}

// object returns the facade, made now or before. Objects that are named live
// among the resources, so the facade in front of them is made each time.
func (r *root) object(f *facade, id string) (reflect.Value, error) {
	if !f.who.ok(r.conn.Auth) {
		return reflect.Value{}, common.ErrPerm
	}
	if f.objects {
		c := r.conn
		c.Object = id
		return f.make(r.state, c)
	}
	if id != "" {
		return reflect.Value{}, common.ErrBadID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if object, ok := r.objects[f]; ok {
		return object, nil
	}
	object, err := f.make(r.state, r.conn)
	if err != nil {
		return reflect.Value{}, err
	}
	r.objects[f] = object
	return object, nil
}

// Kill implements rpc.Root: it ends every watcher, and with them the calls that
// wait.
func (r *root) Kill() { r.conn.Resources.Release() }

// wire returns an error as a call's failure.
func wire(err error) error {
	if err == nil {
		return nil
	}
	e := common.ServerError(err)
	return &rpc.Error{Message: e.Message, Code: e.Code, Info: e.Info}
}

// noModel answers a connection to a model that does not exist: every request
// fails.
type noModel struct{ uuid string }

var _ rpc.Root = noModel{}

// Call implements rpc.Root.
func (n noModel) Call(context.Context, rpc.Request, []byte) (any, error) {
	return nil, &rpc.Error{Message: errors.Errorf("unknown model: %q", n.uuid).Error(), Code: params.CodeModelNotFound}
}

// Kill implements rpc.Root.
func (noModel) Kill() {}
