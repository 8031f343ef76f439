package apiserver

import (
	"context"
	"reflect"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// The facade that serves logins, alone until one succeeds.
const (
	adminName    = "Admin"
	adminVersion = 3
)

// admin is the facade Admin of one connection.
type admin struct {
	conn *connection

	mu       sync.Mutex // held while somebody logs in
	loggedIn bool
}

// RedirectResult says which other site has the model.
type RedirectResult struct {
	Servers [][]struct{} `json:"servers"`
	CACert  string       `json:"ca-cert"`
}

// RedirectInfo would say where the model is, if a login had been sent
// elsewhere; none ever is.
func (a *admin) RedirectInfo() (RedirectResult, error) {
	return RedirectResult{}, errors.New("not redirected")
}

// Login logs in. From then on the connection knows the facades that its caller
// may use, and Admin no more. After a failure it may be tried again.
func (a *admin) Login(ctx context.Context, q params.LoginRequest) (params.LoginResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loggedIn {
		return params.LoginResult{}, errors.New("already logged in")
	}
	result, err := a.conn.logIn(ctx, q)
	a.loggedIn = err == nil
	return result, err
}

// anonymous answers the requests of a connection that is not logged in.
type anonymous struct {
	admin   *admin
	methods *rpc.Methods
}

var _ rpc.Root = (*anonymous)(nil)

// Call implements rpc.Root.
func (r *anonymous) Call(ctx context.Context, q rpc.Request, raw []byte) (any, error) {
	if q.Type != adminName {
		return nil, wire(errNoFacade(q))
	}
	if q.Version != adminVersion {
		return nil, &rpc.Error{
			Message: "this version of Juju does not support login from old clients (not supported)",
			Code:    params.CodeNotSupported,
		}
	}
	m, ok := r.methods.Get(q.Method)
	if !ok {
		q.Version = 0 // which is not said of this facade
		return nil, wire(errNoMethod(q))
	}
	args, err := m.Decode(raw)
	if err != nil {
		return nil, &rpc.Error{Message: err.Error()}
	}
	result, err := m.Call(ctx, reflect.ValueOf(r.admin), args)
	return result, wire(err)
}

// Kill implements rpc.Root.
func (r *anonymous) Kill() {}
