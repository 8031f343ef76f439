package apiserver

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
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
	observer Observer          // nil if nobody wants to know
	origin   Origin

	// working bounds the calls that do their work at the same time: those that
	// wait for a change do not count.
	working chan struct{}

	mu      sync.Mutex
	objects map[*facade]reflect.Value // made at their first use
}

// maxWorking is how many calls of one connection work at the same time. A
// client that sends more has them queued, so that no one of them takes the
// memory and the processors of all.
const maxWorking = 32

var _ rpc.Root = (*root)(nil)

// Call implements rpc.Root.
func (r *root) Call(ctx context.Context, q rpc.Request, raw []byte) (any, error) {
	f, m, err := r.registry.find(r.scope, q)
	if err != nil {
		return nil, wire(err)
	}
	if m.effect != waits {
		select {
		case r.working <- struct{}{}:
			defer func() { <-r.working }()
		case <-ctx.Done():
			return nil, wire(errors.Trace(ctx.Err()))
		}
	}
	began := time.Now()
	args, result, err := r.call(ctx, f, m, q, raw)
	if p, ok := result.(rpc.Pending); ok && err == nil {
		return &pending{p, r, q, m.effect, began, args}, nil
	}
	r.observe(q, m.effect, began, about{args, result}, err)
	return result, wire(err)
}

// pending is the result of a call that waits. When it is there the call has ended.
type pending struct {
	rpc.Pending
	root   *root
	q      rpc.Request
	effect effect
	began  time.Time
	args   reflect.Value
}

// Poll implements rpc.Pending.
func (p *pending) Poll() (any, bool, error) {
	result, done, err := p.Pending.Poll()
	if done {
		p.root.observe(p.q, p.effect, p.began, about{p.args, result}, err)
	}
	return result, done, wire(err)
}

// call carries out a call, and returns its parameters too. They are decoded
// before anything is asked about the caller.
func (r *root) call(ctx context.Context, f *facade, m method, q rpc.Request, raw []byte) (reflect.Value, any, error) {
	args, err := m.Decode(raw)
	if err != nil {
		return reflect.Value{}, nil, &rpc.Error{Message: err.Error()}
	}
	object, err := r.object(f, q.ID)
	if err != nil {
		return args, nil, err
	}
	if err := r.heedBlocks(ctx, m); err != nil {
		return args, nil, err
	}
	result, err := m.Call(ctx, object, args)
	return args, result, err
}

// heedBlocks returns an error satisfying kind.ActionBlocked if changes are switched
// off in the model and the call would be one of a person. Who may not change the
// model anyway is told that instead, by the facade.
func (r *root) heedBlocks(ctx context.Context, m method) error {
	if r.scope != onModel || m.effect != writes || m.despite || !common.AuthClient(r.conn.Auth) || !r.conn.Auth.ModelAccess().Includes(access.Write) {
		return nil
	}
	return r.state.Blocks().Check(ctx, state.BlockChange)
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
	var done *rpc.Error
	if errors.As(err, &done) {
		return done
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
