package apiserver

import (
	"context"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/pinger"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// errBadCreds answers a login that names nobody, or has the wrong password:
// which of them is not told.
var errBadCreds = errors.WithType(errors.New("invalid entity name or password"), errors.Unauthorized)

// allowModelAccessKey is the setting of the site that lets people into a model
// who have no access to the site itself.
const allowModelAccessKey = "allow-model-access"

// logIn checks who wants to log in, and makes the connection theirs.
func (c *connection) logIn(ctx context.Context, q params.LoginRequest) (params.LoginResult, error) {
	began := time.Now()
	result, err := c.tryLogIn(ctx, q)
	c.observeLogin(q, began, err)
	return result, err
}

func (c *connection) tryLogIn(ctx context.Context, q params.LoginRequest) (params.LoginResult, error) {
	if check := c.server.cfg.CheckLogin; check != nil {
		if err := check(q.AuthTag); err != nil {
			return params.LoginResult{}, errors.Trace(err)
		}
	}
	who, user, err := c.identify(ctx, q)
	if err != nil {
		return params.LoginResult{}, errors.Trace(err)
	}
	result, err := c.result(ctx, who, user)
	if err != nil {
		return params.LoginResult{}, errors.Trace(err)
	}
	if ca := *c.server.authority.Load(); q.Trusted != "" && q.Trusted != params.TrustOf(ca) {
		result.CACert = ca
	}
	if user != nil && q.WantTicket {
		ticket, err := user.Ticket()
		if err != nil {
			return params.LoginResult{}, errors.Trace(err)
		}
		result.Ticket = params.Secret(ticket)
	}
	c.becomes(who)
	return result, nil
}

// identify returns who the caller is. The user is nil for agents.
func (c *connection) identify(ctx context.Context, q params.LoginRequest) (caller, *state.User, error) {
	if q.AuthTag == "" {
		return caller{}, nil, errors.WithType(errors.New("no credentials provided"), kind.NoCredentials)
	}
	if strings.HasPrefix(q.AuthTag, tag.UserKind+"-") {
		t, err := tag.ParseUserTag(q.AuthTag)
		if err != nil {
			return caller{}, nil, err
		}
		return c.person(ctx, t, q)
	}
	if err := c.server.agentGate.enter(ctx); err != nil {
		return caller{}, nil, err
	}
	defer c.server.agentGate.leave()
	t, err := tag.ParseTag(q.AuthTag)
	if err != nil {
		return caller{}, nil, err
	}
	who, err := c.agent(ctx, t, q)
	return who, nil, err
}

// agent returns the agent whose password and nonce are right.
func (c *connection) agent(ctx context.Context, t tag.Tag, q params.LoginRequest) (caller, error) {
	switch t.Kind() {
	case tag.MachineKind:
	case tag.UnitKind:
		return caller{}, errBadCreds // there are none
	default:
		return caller{}, errors.New("unexpected login entity tag: invalid request")
	}
	m, err := checkAgent(ctx, c.state, t, q)
	if err == nil {
		return caller{tag: t, manager: m.IsManager()}, nil
	}
	site := c.state.Controller()
	if !errors.Is(err, errors.Unauthorized) || c.state.IsControllerModel() {
		return caller{}, err
	}
	// A machine that manages models may come into any of them.
	st, siteErr := site.State(ctx, site.ControllerModelUUID())
	if siteErr != nil {
		return caller{}, errors.Trace(siteErr)
	}
	m, siteErr = checkAgent(ctx, st, t, q)
	if siteErr != nil {
		return caller{}, err // of the model that was meant
	}
	if !m.IsManager() {
		return caller{}, common.ErrPerm
	}
	return caller{tag: t, manager: true, foreign: true}, nil
}

// checkAgent returns the machine of a model whose agent has that password and
// nonce.
func checkAgent(ctx context.Context, st *state.State, t tag.Tag, q params.LoginRequest) (*state.Machine, error) {
	m, err := st.Machines().Get(ctx, t.Id())
	if errors.Is(err, errors.NotFound) {
		return nil, errBadCreds
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	if !m.PasswordValid(string(q.Credentials)) {
		return nil, errBadCreds
	}
	if !m.CheckProvisioned(q.Nonce) {
		return nil, errors.NotProvisionedf("machine %s", t.Id())
	}
	return m, nil
}

// person returns the user whose password is right, with what that user may do
// here.
func (c *connection) person(ctx context.Context, t tag.UserTag, q params.LoginRequest) (caller, *state.User, error) {
	user, err := c.authenticate(ctx, t.Id(), q)
	if err != nil {
		return caller{}, nil, err
	}
	who := caller{tag: user.Tag(), controller: user.Access()}
	if c.scope == onController {
		if !who.controller.Includes(access.Login) {
			return caller{}, nil, common.ErrPerm
		}
		return who, user, nil
	}
	site := c.state.Controller()
	who.model, err = site.Models().Access(ctx, user.Name(), c.state.ModelUUID())
	if err != nil {
		return caller{}, nil, errors.Trace(err)
	}
	switch {
	case who.model == "" && who.controller == "":
		return caller{}, nil, errBadCreds
	case who.model == "":
		return caller{}, nil, common.ErrPerm
	case who.controller == "":
		config, err := site.ControllerConfig(ctx)
		if err != nil {
			return caller{}, nil, errors.Trace(err)
		}
		if config[allowModelAccessKey] != true {
			return caller{}, nil, common.ErrPerm
		}
	}
	return who, user, nil
}

// authenticate checks a person's password. Who fails too often has to wait, with
// a ticket too: who has stolen one must not guess the password any faster.
func (c *connection) authenticate(ctx context.Context, name string, q params.LoginRequest) (*state.User, error) {
	from := failer{c.remote, name}
	leave, err := c.server.brake.wait(ctx, from)
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer leave()
	if q.Credentials == "" {
		return nil, errBadCreds
	}
	user, err := c.state.Controller().Users().AuthenticateAgain(ctx, name, string(q.Credentials), string(q.Ticket))
	switch {
	case err == nil:
		c.server.brake.passed(from)
		return user, nil
	case !errors.Is(err, state.ErrBadCredentials):
		return nil, errors.Trace(err)
	}
	if c.server.brake.failed(from, time.Now()) {
		logger.Warningf("user-%s fails to log in from %s again and again: delayed from now on", name, c.remote)
	}
	return nil, errBadCreds
}

// result returns the answer to a successful login, and records it for people.
func (c *connection) result(ctx context.Context, who caller, user *state.User) (params.LoginResult, error) {
	site := c.state.Controller()
	servers, err := site.APIHostPorts(ctx)
	if err != nil {
		return params.LoginResult{}, errors.Trace(err)
	}
	r := params.LoginResult{
		Servers:       servers,
		ControllerTag: tag.NewControllerTag(site.ControllerUUID()).String(),
		Facades:       c.server.registry.lists[c.scope],
		ServerVersion: c.server.cfg.Version,
	}
	if c.scope == onModel {
		r.ModelTag = tag.NewModelTag(c.state.ModelUUID()).String()
	}
	if user == nil {
		return r, nil
	}
	last, err := c.recordLogin(ctx, user)
	if err != nil {
		return params.LoginResult{}, errors.Trace(err)
	}
	r.UserInfo = &params.AuthUserInfo{
		Identity:         who.tag.String(),
		LastConnection:   &last,
		ControllerAccess: string(who.controller),
		ModelAccess:      string(who.model),
	}
	return r, nil
}

// recordLogin records the login, and returns the time of the one before.
func (c *connection) recordLogin(ctx context.Context, user *state.User) (time.Time, error) {
	now := time.Now()
	last, err := user.LastLogin(ctx)
	if err != nil {
		return time.Time{}, errors.Trace(err)
	}
	err = user.RecordLogin(ctx, now)
	if err == nil && c.scope != onController {
		var model *state.Model
		if model, err = c.state.Model(ctx); err != nil {
			return time.Time{}, errors.Trace(err)
		}
		err = model.RecordLogin(ctx, user.Name(), now)
	}
	if err != nil {
		// A full disk must not keep people from looking at what is wrong.
		logger.Warningf("cannot record that %s logged in: %v", user.Name(), err)
	}
	return last, nil
}

// becomes makes the connection that of a caller.
func (c *connection) becomes(who caller) {
	resources := common.NewResourcesContext(c.rpc.Context())
	if who.AuthMachineAgent() && !who.foreign {
		key := agentKey{c.state.ModelUUID(), who.tag}
		resources.Register(c.server.presence.enter(key))
		dog := newWatchdog(c.server.cfg.PingTimeout, func() {
			logger.Infof("closing connection of %s in model %s: no ping for %v", who.tag, key.model, c.server.cfg.PingTimeout)
			c.rpc.Kill()
		})
		if err := resources.RegisterNamed(pinger.Resource, dog); err != nil {
			dog.Kill() // not reached: the connection is new
		}
	}
	c.server.conns.identified(c, who.home(c.state))
	r := newRoot(c, who, resources)
	c.rpc.SetMaxRequests(maxRequests)
	c.rpc.SetMaxFrame(0)
	c.rpc.SetRoot(r)
	select {
	case <-c.rpc.Dying():
		r.Kill() // it may have begun to close before it had this root
	default:
	}
	logger.Debugf("%s logged in to %s %s from %s", who.tag, c.scope, c.state.ModelUUID(), c.remote)
}
